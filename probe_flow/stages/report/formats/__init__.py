"""The file formats of `report`, by what they show."""
