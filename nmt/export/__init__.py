"""Our models in the forms of other toolkits."""
