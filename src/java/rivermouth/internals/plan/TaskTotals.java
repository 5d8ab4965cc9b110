package rivermouth.internals.plan;

import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

import scala.jdk.javaapi.CollectionConverters;

/** What the tasks of tagged jobs needed: of those that run from when it is made until it is asked. */
public final class TaskTotals extends SparkListener {
    private final SparkContext context;
    private final String tag;
    private final Set<Integer> stages = ConcurrentHashMap.newKeySet();
    private final Last last = new Last();
    private final CountDownLatch heard = new CountDownLatch(1);
    private long peakBytes;
    private long spilledBytes;
    private long tasks;

    public TaskTotals(SparkContext context, String tag) {
        this.context = context;
        this.tag = tag;
        context.addSparkListener(this);
    }

    /**
     * Most execution memory of one task, bytes spilled to disk, and number of tasks; null if they are not known in time.
     *
     * <p>Spark tells its listeners later than it returns: it is known once an event that is sent now has arrived.
     */
    public long[] told(long timeoutMs) throws InterruptedException {
        context.listenerBus().post(last);
        boolean inTime = heard.await(timeoutMs, TimeUnit.MILLISECONDS);
        end();
        return inTime ? new long[] {peakBytes, spilledBytes, tasks} : null;
    }

    /** Listens no more. */
    public void end() {
        context.removeSparkListener(this);
    }

    @Override
    public void onJobStart(SparkListenerJobStart job) {
        String tags = job.properties() == null ? null : job.properties().getProperty("spark.job.tags");
        if (tags != null && Arrays.asList(tags.split(",")).contains(tag)) {
            CollectionConverters.asJava(job.stageInfos()).forEach(stage -> stages.add(stage.stageId()));
        }
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd task) {
        TaskMetrics metrics = task.taskMetrics();
        if (metrics != null && stages.contains(task.stageId())) {
            peakBytes = Math.max(peakBytes, metrics.peakExecutionMemory());
            spilledBytes += metrics.diskBytesSpilled();
            tasks++;
        }
    }

    @Override
    public void onOtherEvent(SparkListenerEvent event) {
        if (event == last) {
            heard.countDown();
        }
    }

    private static final class Last implements SparkListenerEvent {
        /** Not for the event log. */
        @Override
        public boolean logEvent() {
            return false;
        }
    }
}
