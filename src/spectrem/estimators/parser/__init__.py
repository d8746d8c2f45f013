"""Dependency parsers from trees, parts of trees and constraints."""
