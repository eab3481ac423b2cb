package bloom

// Mistake is what the writers of a filter do wrong with a name, a fault to be
// diagnosed: it returns the spelling under which the name is entered, and what
// becomes of it. A build is no writer: it reads the shards and gets names right.
type Mistake func(name string) (as string, fate Fate)

// Fate is what becomes of a name that is added.
type Fate int

// The fates.
const (
	// Entered is how it should be.
	Entered Fate = iota
	// Torn names are counted, but their bits are lost: two who write the same
	// word without a lock, of whom one wins.
	Torn
	// Dropped names never arrive: a queue that was full, a writer that died.
	Dropped
)

// SetMistake lets the writers make the mistake from now on; nil lets them get
// names right. What was entered before stays as it is.
func (f *Filter) SetMistake(m Mistake) {
	if m == nil {
		f.mistake.Store(nil)
		return
	}
	f.mistake.Store(&m)
}

// entry is what a writer makes of a name.
func (f *Filter) entry(name string) (h hashes, fate Fate) {
	if m := f.mistake.Load(); m != nil {
		name, fate = (*m)(name)
	}
	return hash(name), fate
}
