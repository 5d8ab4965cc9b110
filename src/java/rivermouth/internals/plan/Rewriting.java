package rivermouth.internals.plan;

import java.util.function.UnaryOperator;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** A rule for the nodes of a plan: another node in the place of one, or null where it stays. */
final class Rewriting extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final UnaryOperator<LogicalPlan> rule;

    Rewriting(UnaryOperator<LogicalPlan> rule) {
        this.rule = rule;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
        return rule.apply(plan) != null;
    }

    @Override
    public <A extends LogicalPlan, B> B applyOrElse(A plan, Function1<A, B> otherwise) {
        LogicalPlan found = rule.apply(plan);
        @SuppressWarnings("unchecked")
        B result = found == null ? otherwise.apply(plan) : (B) found;
        return result;
    }
}
