"""Bounce buffers."""

from kvikio._kvikio import bounce_buffer_free

__all__ = ["bounce_buffer_free"]
