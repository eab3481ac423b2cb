package shard

import "testing"

// TestLateWritesAreCarriedOver registers a name after all has been copied and compared: the note alone brings it over.
func TestLateWritesAreCarriedOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, other := open(t, openFiles(t, dir, 2)), open(t, openFiles(t, dir, 2))
	const bucket = 17
	names := namesIn(bucket, 3)
	claim(t, c, names[0], 1)
	next, err := c.Table().begin(bucket, []int{1})
	if err != nil {
		t.Fatal(err)
	}
	m := mover{cluster: c, dirty: map[string]bool{}}
	for next.Change != nil {
		if err := c.publish(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		m.change, m.pass = *next.Change, pass{bucket, next.Version}
		if err := m.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next.Change.Step == StepCopy {
			claim(t, other, names[1], 2)
			claim(t, other, names[2], 3)
		}
		if next, err = next.advance(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.publish(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if m.done.Carried != 2 {
		t.Errorf("%d names were carried over, want 2", m.done.Carried)
	}
	checkHomes(t, other, map[string]int64{names[0]: 1, names[1]: 2, names[2]: 3})
}
