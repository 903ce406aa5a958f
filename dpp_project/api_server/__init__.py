"""The API's process: one event loop that reads requests, and threads that run Django behind it."""
