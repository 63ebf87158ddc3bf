"""Jobs on files of dumps: reduce, convert, parse."""
