"""DependencyModel: grammars of dependencies over tags, learned with or without trees."""
