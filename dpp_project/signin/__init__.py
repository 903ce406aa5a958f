"""How operators sign in: name, password and, where set up, a code; attempts are counted, bounded and written down."""
