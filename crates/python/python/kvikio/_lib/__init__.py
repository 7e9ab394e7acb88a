"""Names where KvikIO's users find them."""
