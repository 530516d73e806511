"""The tables in the libraries that read Arrow's PyCapsule interface. Each library is optional."""

import pytest

import poseidon_cc as pc


@pytest.fixture(scope="module")
def run():
    return pc.run("quickstart", seeds=2, overrides={"stop": "2 ms"}, progress=False)


TABLES = ["messages", "received", "drops", "queues", "senders", "receivers", "decisions", "metrics"]


@pytest.mark.parametrize("name", TABLES)
def test_pyarrow(run, name):
    pyarrow = pytest.importorskip("pyarrow")
    table = getattr(run, name)
    read = pyarrow.table(table)
    read.validate(full=True)
    assert read.num_rows == len(table) and read.column_names == table.columns
    assert read.to_pydict() == table.to_dict()


@pytest.mark.parametrize("name", TABLES)
def test_polars(run, name):
    polars = pytest.importorskip("polars")
    table = getattr(run, name)
    read = polars.DataFrame(table)
    assert read.height == len(table)
    assert read.with_columns(polars.col(polars.Categorical).cast(polars.String)).to_dict(as_series=False) == table.to_dict()


def test_pandas(run):
    pandas = pytest.importorskip("pandas", minversion="3.0")
    frame = pandas.DataFrame.from_arrow(run.queues)
    assert list(frame["waiting_bytes"]) == run.queues["waiting_bytes"]


def test_duckdb(run):
    duckdb = pytest.importorskip("duckdb")
    queues = run.queues
    rows = duckdb.sql("select cell, count(*), max(waiting_bytes) from queues group by cell order by cell").fetchall()
    assert sum(row[1] for row in rows) == len(queues)
    assert max(row[2] for row in rows) == max(queues["waiting_bytes"])


def test_numbers_are_not_copied(run):
    pyarrow = pytest.importorskip("pyarrow")
    table = run.queues
    addresses = [
        [chunk.buffers()[1].address for chunk in pyarrow.table(table)["waiting_bytes"].chunks] for _ in range(2)
    ]
    assert addresses[0] == addresses[1]


def test_a_table_outlives_its_run(run):
    pyarrow = pytest.importorskip("pyarrow")
    other = pc.run("quickstart", law="poseidon", seeds=1, overrides={"stop": "2 ms"}, progress=False)
    expected = other.queues["waiting_bytes"]
    read = pyarrow.table(other.queues)
    del other
    assert read["waiting_bytes"].to_pylist() == expected
