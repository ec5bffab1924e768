"""The rule of a cascade: levels tried in order, each answers a class or defers."""

from sigmax.rules.cascade.rule import CascadeRule

__all__ = ["CascadeRule"]
