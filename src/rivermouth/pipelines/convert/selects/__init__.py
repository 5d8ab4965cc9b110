"""SELECTs over the records of Kafka, in the words of a flow."""
