"""What makes operators, values and slots of two programs alike."""
