"""A failed driver on one screen: the user's own lines, no wall of frames."""

from rekindle.local.failure import from_logs, from_record, pipeline_error

OWN = """\
Traceback (most recent call last):
  File "/home/u/main.py", line 18, in <module>
    rows.collect()
    ~~~~~~~~~~~~^^
  File "/v/site-packages/pyspark/python/lib/pyspark.zip/pyspark/core/rdd.py", line 1699, in collect
    sock_info = self.ctx._jvm.PythonRDD.collectAndServe(self._jrdd.rdd())
  File "/v/site-packages/pyspark/python/lib/py4j-src.zip/py4j/java_gateway.py", line 1362, in __call__
    return_value = get_return_value(
  File "/home/u/main.py", line 17, in g
    raise ValueError("bad row 0")
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/v/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
  File "/home/u/main.py", line 17, in g
    raise ValueError("bad row 0")
ValueError: bad row 0
"""
JVM = """\
26/11/21 07:40:34 WARN TaskSetManager: Lost task 0.0 in stage 0.0
org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2900)
Caused by: java.io.IOException: gone
\t... 12 more
"""


def test_the_user_s_frames_are_shown_and_the_libraries_are_not():
    shown = from_logs(f"some warning\n{OWN}", JVM).splitlines()
    assert shown == [
        "Traceback (most recent call last):",
        '  File "/home/u/main.py", line 18, in <module>',
        "    rows.collect()",
        "    ~~~~~~~~~~~~^^",
        '  File "/home/u/main.py", line 17, in g',
        '    raise ValueError("bad row 0")',
        "pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:",
        "Traceback (most recent call last):",
        '  File "/home/u/main.py", line 17, in g',
        '    raise ValueError("bad row 0")',
        "ValueError: bad row 0",
    ]


def test_the_last_traceback_is_the_one_that_ended_the_driver():
    frame = '  File "/home/u/a.py", line 1, in <module>'
    first = f"Traceback (most recent call last):\n{frame}\nKeyError: 'logged'\n"
    second = first.replace("logged", "fatal")
    shown = from_logs(f"{first}went on\n{second}", "")
    assert "fatal" in shown
    assert "logged" not in shown


def test_frames_of_the_jvm_are_left_out():
    shown = from_logs(OWN + JVM, "")
    assert "DAGScheduler.scala" not in shown
    assert "12 more" not in shown
    assert "WARN" not in shown


def test_without_a_traceback_what_the_program_said_last_is_shown():
    assert from_logs("usage: main.py FILE\nmain.py: error: no FILE\n", JVM).endswith("main.py: error: no FILE")


def test_a_program_that_said_nothing_leaves_the_jvm_s_log():
    shown = from_logs("", JVM)
    assert "org.apache.spark.SparkException: Job aborted" in shown
    assert "DAGScheduler" not in shown


def test_a_long_traceback_keeps_where_and_what():
    frames = "".join(f'  File "/home/u/deep.py", line {n}, in f{n}\n' for n in range(100))
    shown = from_logs(f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n", "").splitlines()
    assert len(shown) == 31
    assert shown[0] == "Traceback (most recent call last):"
    assert shown[15] == "  ... 72 lines ..."
    assert shown[-1] == "RecursionError: too deep"


def test_a_structured_error_says_where_what_and_the_remedy():
    error = {
        "kind": "pipeline-failed",
        "message": "user code raised ValueError: bad row",
        "stage": "delays",
        "partition": 3,
        "traceback": "Traceback\n  File x\nValueError: bad row\n",
        "remedy": "mend it",
    }
    assert from_record(error).splitlines() == [
        "stage delays partition 3: user code raised ValueError: bad row",
        "Traceback",
        "  File x",
        "ValueError: bad row",
        "-> mend it",
    ]
    assert from_record({"message": "no Java", "stage": None, "partition": None}) == "no Java"
    assert from_record({"message": "stage delays: no", "stage": "delays"}) == "stage delays: no"


def test_of_a_pipeline_error_its_words_are_shown_and_the_user_s_line():
    frame = '  File "/home/u/main.py", line {}, in <module>\n    pipeline.read()\n'
    said = "Traceback (most recent call last):\n{}rekindle.pipeline.errors.PipelineError: no input y\n-> name one\n"
    shown = pipeline_error(said.format(frame.format(3) + frame.format(18)))
    assert shown == "/home/u/main.py line 18: no input y\n-> name one"
    assert pipeline_error(said.format("")) == "no input y\n-> name one"


def test_a_pipeline_error_is_known_by_its_class():
    assert pipeline_error("Traceback\nValueError: rekindle.pipeline.errors.PipelineError: quoted") is None
