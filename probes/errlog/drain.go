package errlog

import "strings"

const (
	// similar is the share of words that two masked messages must have in
	// common to be the same error. Drain takes 0.4 to 0.5 on raw lines; after
	// masking what still differs is mostly the error itself.
	similar = 0.6
	// maxTemplates bounds the memory. What comes after is one group.
	maxTemplates = 200
	// overflow is the template of that group.
	overflow = "(further errors of many kinds)"
)

// drain groups masked messages whose words agree in most places, and finds the
// values that mask cannot know: P. He et al., "Drain: an online log parsing
// approach with fixed depth tree", ICWS 2017. The tree is a map from what must
// agree altogether: the caller's key, the number of words, the first word.
type drain struct {
	leaves map[leafKey][]*template
	count  int
}

// groupKey is what tells errors apart beside their text: messages that differ
// in one word, such as a constraint, must not merge across codes.
type groupKey struct{ layer, code string }

type leafKey struct {
	group groupKey
	words int
	first string
}

// template is one kind of error.
type template struct {
	group groupKey
	words []string
}

func newDrain() *drain { return &drain{leaves: make(map[leafKey][]*template)} }

// add returns the template of a masked message.
func (d *drain) add(group groupKey, masked string) *template {
	words := strings.Fields(masked)
	key := leafKey{group: group, words: len(words)}
	if len(words) > 0 {
		key.first = words[0]
	}
	var best *template
	score := 0
	for _, t := range d.leaves[key] {
		if s := common(t.words, words); best == nil || s > score {
			best, score = t, s
		}
	}
	if best != nil && (score == len(words) || len(words) >= 3 && float64(score) >= similar*float64(len(words))) {
		best.merge(words)
		return best
	}
	if d.count >= maxTemplates {
		return d.rest(group)
	}
	d.count++
	t := &template{group: group, words: words}
	d.leaves[key] = append(d.leaves[key], t)
	return t
}

func (d *drain) rest(group groupKey) *template {
	key := leafKey{group: group, words: -1}
	if len(d.leaves[key]) == 0 {
		d.leaves[key] = []*template{{group: group, words: []string{overflow}}}
	}
	return d.leaves[key][0]
}

func common(a, b []string) int {
	n := 0
	for i := range a {
		if a[i] == b[i] {
			n++
		}
	}
	return n
}

func (t *template) merge(words []string) {
	for i := range t.words {
		if t.words[i] != words[i] {
			t.words[i] = anyMask
		}
	}
}

func (t *template) text() string { return strings.Join(t.words, " ") }
