"""Classes in Spark's JVM: rivermouth's own, and users' deserializers."""
