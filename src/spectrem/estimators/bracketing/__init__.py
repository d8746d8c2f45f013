"""BracketingModel: the constituent-context model learned from sentences without trees."""
