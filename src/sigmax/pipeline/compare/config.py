"""The file that `sigmax compare` reads: one selection of data, one budget, several schemes."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, create_model, field_validator

from sigmax.config.changes import changed
from sigmax.config.toml import Place, placed, read_toml
from sigmax.config.validation import Count, Options, about, build, inside
from sigmax.errors import RequestError
from sigmax.pipeline.compare.kinds import (
    MemorizedScheme,
    MultiscaleScheme,
    NetworkScheme,
    SchemeConfig,
    SemiElasticScheme,
    SmoothedScheme,
    SystemScheme,
    kinds,
)
from sigmax.pipeline.voting import Selection, Source, VotingConfig
from sigmax.rules.sampling import Sampling, asked


class ComparedData(Selection):
    """What is certified."""

    source: Source
    split: Annotated[str, about("the split that is certified")] = "test"
    train: Annotated[str, about("the split that a sigma field is measured from")] = "train"
    image_size: Annotated[Count | None, about("for image folders: pixels a side")] = None


Table = SmoothedScheme | MultiscaleScheme | SemiElasticScheme | MemorizedScheme | SystemScheme


class CompareConfig(Options):
    """A whole comparison. Paths begin at the folder of the file."""

    out: Annotated[Path, Place(), about("the folder of all results")]
    network: Annotated[str | None, Place(), about("checkpoint of every scheme that names none of its own")] = None
    networks: Annotated[Mapping[str, str], Place(), about("names for checkpoints: NAME = PATH")] = {}
    device: Annotated[str, about("where networks vote")] = "cpu"
    radii: Annotated[tuple[float, ...], about("columns of the table; else chosen from the runs")] = ()
    data: ComparedData
    certify: VotingConfig = VotingConfig()
    schemes: Annotated[
        Mapping[str, Annotated[Table, Field(discriminator="kind")]], about("[schemes.NAME]: `kind`, and its options")
    ]

    @field_validator("schemes", mode="after")
    @classmethod
    def _named(cls, schemes: Mapping[str, SchemeConfig]) -> Mapping[str, SchemeConfig]:
        if not schemes:
            raise RequestError("at least one [schemes.NAME] is needed, each with its kind")
        for name in schemes:
            if Path(name).name != name:
                raise RequestError(f"{name!r} becomes the name of a file; use one without slashes")
        return schemes

    @property
    def how(self) -> dict[str, Any]:
        """How networks vote, as keywords of any scheme."""
        return self.certify.how(self.device)

    def checkpoints(self, scheme: NetworkScheme) -> tuple[str, ...]:
        """Paths of a scheme's networks: one, or one for each of its sigmas."""
        named = scheme.several_networks or (scheme.network or self.network,)
        if None in named:
            raise RequestError(
                "no network is given, neither here nor for all schemes; say network = 'NAME.safetensors'"
            )
        return tuple(self.networks.get(str(name), str(name)) for name in named)

    def question(self, name: str) -> Sampling:
        """What is asked of a scheme: the same of all, unless its table names another way of sampling."""
        own = self.schemes[name].sampling
        return self.certify.question if own is None or own == self.certify.sampling else asked(own)

    def request(self, name: str) -> dict[str, Any]:
        """What `certify_run` is asked of a scheme, as its keywords."""
        return {**self.certify.request, **self.data.inputs, "sampling": self.question(name)}

    @classmethod
    def read(cls, path: Path, changes: Sequence[str] = ()) -> Self:
        """The comparison in a TOML file; `changes` such as "certify.n=1000" are put in its place."""
        given, model = read_toml(path, "comparison"), cls.with_kinds()
        with inside(str(path)):
            given = changed(given, changes, model)
            known = given.get("networks")
            return build(model, placed(model, given, path.parent, known if isinstance(known, Mapping) else ()))

    @classmethod
    def with_kinds(cls) -> type[Self]:
        """The same, where schemes may also be of the kinds that installed packages register."""
        table = reduce(or_, kinds())
        described = cls.model_fields["schemes"].description or ""
        schemes = Annotated[Mapping[str, Annotated[table, Field(discriminator="kind")]], about(described)]  # type: ignore[valid-type]  # known when it runs
        return create_model(cls.__name__, __base__=cls, __doc__=cls.__doc__, schemes=(schemes, ...))
