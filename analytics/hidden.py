"""Owns finding what a parsed statement hides: queries in places where Spark's own walk through a plan does not come by.

Spark tells what is inside a node by `children` and `innerChildren`. Some nodes keep queries elsewhere: named windows are values of a map,
the columns that `|> SET` sets and the PARTITION BY of a table argument are no children. Later they move to where they are run. So here
every element of every node is looked at, whatever it is kept in. A plan has thousands of them, and a call into the JVM for each would take
seconds: the walk is a class of its own there, made by the compiler that Spark has for its queries.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pyspark.sql import SparkSession

# The compiler knows no generics and no lambdas.
WALK = """
import java.util.*;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.*;

public class Hidden implements java.util.function.Predicate {
    /** Whether the plan holds a plan that Spark's own walk does not find, or a function, into which nobody can look. */
    public boolean test(Object plan) {
        Set known = knownTo(plan);
        Set seen = identities();
        Deque next = new ArrayDeque();
        next.push(plan);
        while (!next.isEmpty()) {
            Object one = next.pop();
            if (!seen.add(one)) continue;
            if (one instanceof QueryPlan && !known.contains(one)) return true;
            // Collections are functions, too; options, tuples and all nodes are products.
            if (one instanceof scala.collection.Iterable) push(next, ((scala.collection.Iterable) one).iterator());
            else if (one instanceof java.lang.Iterable) next.addAll((Collection) one);
            else if (one instanceof Product) push(next, ((Product) one).productIterator());
            else if (one instanceof Function0 || one instanceof Function1 || one instanceof Function2) return true;
            if (one instanceof TreeNode) {
                push(next, ((TreeNode) one).children().iterator());
                push(next, ((TreeNode) one).innerChildren().iterator());
            }
        }
        return false;
    }

    private static Set knownTo(Object plan) {
        Set known = identities();
        Deque next = new ArrayDeque();
        next.push(plan);
        while (!next.isEmpty()) {
            TreeNode one = (TreeNode) next.pop();
            if (!known.add(one)) continue;
            push(next, one.children().iterator());
            push(next, one.innerChildren().iterator());
        }
        return known;
    }

    private static Set identities() {
        return Collections.newSetFromMap(new IdentityHashMap());
    }

    private static void push(Deque next, scala.collection.Iterator more) {
        while (more.hasNext()) {
            Object one = more.next();
            if (one != null) next.push(one);
        }
    }
}
"""


def hides_something(spark: SparkSession, *, plan: Any) -> bool:
    """Whether a parsed plan has more in it than `children` and `innerChildren` of its nodes tell."""
    return bool(_walk(spark._jvm).test(plan))


@cache
def _walk(jvm: Any) -> Any:
    """Compiled once for each JVM: that takes longer than all else that is done about a question."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getSparkClassLoader())
    compiler.cook(WALK)
    return compiler.getClassLoader().loadClass("Hidden").newInstance()
