"""/api/automations: for operators alone, but for signed hooks."""
