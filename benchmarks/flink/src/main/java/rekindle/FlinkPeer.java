package rekindle;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.SlowTaskDetectorOptions;
import org.apache.flink.runtime.executiongraph.ExecutionGraph;
import org.apache.flink.runtime.executiongraph.ExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobmaster.TestingLogicalSlotBuilder;
import org.apache.flink.runtime.scheduler.benchmark.JobConfiguration;
import org.apache.flink.runtime.scheduler.benchmark.SchedulerBenchmarkUtils;
import org.apache.flink.runtime.scheduler.benchmark.e2e.HandleGlobalFailureAndRestartAllTasksBenchmark;
import org.apache.flink.runtime.scheduler.benchmark.failover.RegionToRestartInBatchJobBenchmark;
import org.apache.flink.runtime.scheduler.benchmark.partitionrelease.PartitionReleaseInBatchJobBenchmark;
import org.apache.flink.runtime.scheduler.benchmark.topology.BuildExecutionGraphBenchmark;
import org.apache.flink.runtime.scheduler.slowtaskdetector.ExecutionTimeBasedSlowTaskDetector;

/**
 * Runs one procedure of Flink's scheduler several times in this JVM: {@code FlinkPeer PROCEDURE PARALLELISM TIMES}.
 *
 * <p>It prints a line for each time: nanoseconds, and how many tasks the answer names (0 where there is no answer).
 * The first is the cold one. The job is that of Flink's own benchmarks: two vertices, all-to-all, blocking.
 */
public final class FlinkPeer {

    /** Prepares one call, which is then measured. */
    interface Procedure {
        Callable<Integer> prepare() throws Exception;
    }

    private static final JobConfiguration JOB = JobConfiguration.BATCH;

    private static final double SHARE_FINISHED = 0.8;

    public static void main(String[] arguments) throws Exception {
        setParallelism(Integer.parseInt(arguments[1]));
        Procedure procedure = procedures().get(arguments[0]);
        for (int time = Integer.parseInt(arguments[2]); time > 0; time--) {
            Callable<Integer> call = procedure.prepare();
            System.gc(); // of what the preparation has left
            long start = System.nanoTime();
            int named = call.call();
            System.out.println((System.nanoTime() - start) + " " + named);
        }
        System.exit(0); // the executors that Flink's benchmarks leave behind are no daemons
    }

    private static Map<String, Procedure> procedures() {
        return Map.of(
                "restart", once(FlinkPeer::tasksToRestart),
                "detect", once(() -> slowTasks(Duration.ofDays(1))),
                "detect-slow", once(() -> slowTasks(Duration.ZERO)),
                "release", FlinkPeer::partitionRelease,
                "build", FlinkPeer::buildExecutionGraph,
                "restart-all", FlinkPeer::restartAll);
    }

    /** What changes nothing is called again on the same job. */
    private static Procedure once(Procedure procedure) {
        Callable<?>[] prepared = new Callable<?>[1];
        return () -> {
            if (prepared[0] == null) {
                prepared[0] = procedure.prepare();
            }
            return () -> (Integer) prepared[0].call();
        };
    }

    private static Callable<Integer> tasksToRestart() throws Exception {
        RegionToRestartInBatchJobBenchmark benchmark = new RegionToRestartInBatchJobBenchmark();
        benchmark.setup(JOB);
        return () -> benchmark.calculateRegionToRestart().size();
    }

    private static Callable<Integer> partitionRelease() throws Exception {
        PartitionReleaseInBatchJobBenchmark benchmark = new PartitionReleaseInBatchJobBenchmark();
        benchmark.setup(JOB);
        return () -> {
            benchmark.partitionRelease();
            benchmark.teardown();
            return 0;
        };
    }

    private static Callable<Integer> buildExecutionGraph() throws Exception {
        BuildExecutionGraphBenchmark benchmark = new BuildExecutionGraphBenchmark();
        benchmark.setup(JOB);
        return () -> {
            benchmark.buildTopology();
            benchmark.teardown();
            return 0;
        };
    }

    private static Callable<Integer> restartAll() throws Exception {
        HandleGlobalFailureAndRestartAllTasksBenchmark benchmark = new HandleGlobalFailureAndRestartAllTasksBenchmark();
        benchmark.setup(JOB);
        return () -> {
            benchmark.handleGlobalFailureAndRestartAllTasks();
            return 0;
        };
    }

    /** One vertex of which most tasks have finished; the others have run for as long or longer. */
    private static Callable<Integer> slowTasks(Duration lowerBound) throws Exception {
        List<JobVertex> vertices = SchedulerBenchmarkUtils.createDefaultJobVertices(JOB);
        ExecutionGraph graph = SchedulerBenchmarkUtils.createAndInitExecutionGraph(
                vertices, JOB, Executors.newSingleThreadScheduledExecutor());
        SchedulerBenchmarkUtils.deployTasks(graph, vertices.get(0).getID(), new TestingLogicalSlotBuilder());
        ExecutionVertex[] tasks = graph.getJobVertex(vertices.get(0).getID()).getTaskVertices();
        for (int subtask = 0; subtask < tasks.length; subtask++) {
            tasks[subtask].setInputBytes(1024);
            if (subtask < SHARE_FINISHED * tasks.length) {
                tasks[subtask].getCurrentExecutionAttempt().markFinished();
            }
        }
        Thread.sleep(1000); // whatever still runs has run longer than what has finished
        Configuration options = new Configuration();
        options.set(SlowTaskDetectorOptions.EXECUTION_TIME_BASELINE_LOWER_BOUND, lowerBound);
        options.set(SlowTaskDetectorOptions.EXECUTION_TIME_BASELINE_MULTIPLIER, 1.0);
        ExecutionTimeBasedSlowTaskDetector detector = new ExecutionTimeBasedSlowTaskDetector(options);
        Method findSlowTasks = detector.getClass().getDeclaredMethod("findSlowTasks", ExecutionGraph.class);
        findSlowTasks.setAccessible(true);
        return () -> ((Map<?, ?>) findSlowTasks.invoke(detector, graph)).size();
    }

    /** Flink's benchmarks are fixed at 4,000 tasks for each vertex. */
    private static void setParallelism(int parallelism) throws ReflectiveOperationException {
        Field field = JobConfiguration.class.getDeclaredField("parallelism");
        field.setAccessible(true);
        field.set(JOB, parallelism);
    }

    private FlinkPeer() {}
}
