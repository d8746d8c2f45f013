"""Labels from weak votes: crowds and labelling rules, beside other packages."""
