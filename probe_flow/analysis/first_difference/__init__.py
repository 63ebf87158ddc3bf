"""The first entries that differ, over ranks that communicate."""
