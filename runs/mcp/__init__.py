"""The product as tools of an agent: the Model Context Protocol at /mcp, and a bridge to it for stdio."""
