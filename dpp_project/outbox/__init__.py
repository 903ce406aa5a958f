"""Events: written with their fact, published to a queue of their own, handled once by effect."""
