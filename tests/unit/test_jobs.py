from hypothesis import given
from hypothesis import strategies as st

from probe_flow.jobs import in_batches


def batches(groups, most_bytes=10, most_jobs=99, most_group_bytes=0):
    jobs = [job for group in groups for job in group]
    filled = in_batches(groups, most_bytes=most_bytes, most_jobs=most_jobs, most_group_bytes=most_group_bytes)
    return [tuple(jobs[piece]) for piece in filled]


def test_a_batch_is_filled_up_to_its_bytes():
    assert batches([[4], [6], [1], [9], [1]]) == [(4, 6), (1, 9), (1,)]


def test_a_batch_is_filled_up_to_its_number_of_jobs():
    assert batches([[0]] * 5, most_jobs=2) == [(0, 0), (0, 0), (0,)]


def test_a_job_larger_than_a_batch_has_its_own():
    assert batches([[3], [40], [3]]) == [(3,), (40,), (3,)]


def test_a_group_begins_a_batch_where_it_does_not_fit_into_the_rest_of_one():
    assert batches([[4], [4, 4]]) == [(4,), (4, 4)]


def test_a_group_larger_than_a_batch_fills_several():
    assert batches([[4], [4, 4, 4]]) == [(4,), (4, 4), (4,)]


def test_a_group_stays_in_one_batch_up_to_its_own_bytes():
    assert batches([[4], [4, 4, 4], [4], [4]], most_group_bytes=12) == [(4,), (4, 4, 4), (4, 4)]
    assert batches([[4], [4, 4, 4, 4], [2]], most_group_bytes=12) == [(4,), (4, 4), (4, 4, 2)]
    assert batches([[4, 4, 4]], most_jobs=2, most_group_bytes=12) == [(4, 4), (4,)]


def test_no_jobs_make_no_batch():
    assert batches([]) == []
    assert batches([[], [1], []]) == [(1,)]


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=6), max_size=20),
    st.integers(1, 40),
    st.integers(1, 5),
)
def test_every_job_is_in_one_batch_in_order_and_no_batch_is_too_large(groups, most_bytes, most_jobs):
    found = batches(groups, most_bytes, most_jobs)
    assert [job for batch in found for job in batch] == [job for group in groups for job in group]
    for batch in found:
        assert 1 <= len(batch) <= most_jobs
        assert len(batch) == 1 or sum(batch) <= most_bytes
