package com.acme;

import java.math.BigDecimal;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A bean whose class is not public. */
class Order {
    public long getId() {
        return 7;
    }

    public BigDecimal getAmount() {
        return new BigDecimal("1.50");
    }

    public Instant getAt() {
        return Instant.parse("2026-01-01T00:00:00.000001Z");
    }

    public List<String> getTags() {
        return List.of("a", "b");
    }

    public Map<String, Integer> getCounts() {
        return Map.of("x", 1);
    }

    public Place getPlace() {
        return new Place("Köln", Optional.empty());
    }

    public boolean isPaid() {
        return true;
    }

    /** A record within it. */
    record Place(String city, Optional<String> street) {}
}
