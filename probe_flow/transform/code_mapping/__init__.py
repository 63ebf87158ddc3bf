"""The lines of model code behind the operators of a MindSpore kernel dump, as tables."""
