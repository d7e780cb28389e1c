"""What `flambeau.library` is made of."""
