"""One TOML file: experts, router, thresholds, certificates, report."""

from sigmax.pipeline.config import PipelineConfig
from sigmax.pipeline.pipeline import Phase, Pipeline

__all__ = ["Phase", "Pipeline", "PipelineConfig"]
