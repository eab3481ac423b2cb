package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// TestBurstMix: of the notifications half bring a new alert, and every group has
// as many.
func TestBurstMix(t *testing.T) {
	t.Parallel()
	b := burst{webhooks: 1000, groups: 20}
	begun := time.Now()
	seen, perGroup, repeats := map[string]bool{}, map[string]int{}, 0
	for i := range b.webhooks {
		group, alert, body := b.notification(i, begun)
		if !json.Valid([]byte(body)) {
			t.Fatalf("notification %d is not JSON: %s", i, body)
		}
		if seen[group+"/"+alert] {
			repeats++
			continue
		}
		seen[group+"/"+alert] = true
		perGroup[group]++
	}
	if len(seen) != 500 || repeats != 500 || len(perGroup) != 20 {
		t.Errorf("got %d alerts, %d repeats, %d groups, want 500, 500, 20", len(seen), repeats, len(perGroup))
	}
	for group, n := range perGroup {
		if n != 25 {
			t.Errorf("group %s: got %d alerts, want 25", group, n)
		}
	}
}

// TestBurstCounts: what is missing is lost, and only more than one incident is
// doubled.
func TestBurstCounts(t *testing.T) {
	t.Parallel()
	promised := map[string]bool{}
	for i := range 3 {
		promised[fmt.Sprintf("a/%d", i)] = true
		promised[fmt.Sprintf("b/%d", i)] = true
	}
	promised["c/0"] = true
	kept := keptIncidents{"a": {3, 1}, "b": {1, 1}, "d": {5, 2}}
	if lost, doubled := kept.compare(promised); lost != 3 || doubled != 0 {
		t.Errorf("got %d lost and %d doubled, want 3 and 0", lost, doubled)
	}
	kept = keptIncidents{"a": {3, 2}, "b": {9, 1}, "c": {1, 1}}
	if lost, doubled := kept.compare(promised); lost != 0 || doubled != 1 {
		t.Errorf("got %d lost and %d doubled, want 0 and 1", lost, doubled)
	}
}
