package shard

import (
	"errors"
	"iter"
)

// pair is a name as two shards have it; the side that has it not is zero.
type pair struct {
	left, right       record
	hasLeft, hasRight bool
}

func (p pair) name() string {
	if p.hasLeft {
		return p.left.name
	}
	return p.right.name
}

// zip joins two ascending sequences by name.
func zip(left, right iter.Seq2[record, error]) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		nextLeft, stopLeft := iter.Pull2(left)
		defer stopLeft()
		nextRight, stopRight := iter.Pull2(right)
		defer stopRight()
		l, errL, moreL := nextLeft()
		r, errR, moreR := nextRight()
		for moreL || moreR {
			if err := errors.Join(errL, errR); err != nil {
				yield(pair{}, err)
				return
			}
			p := pair{hasLeft: moreL && (!moreR || l.name <= r.name), hasRight: moreR && (!moreL || r.name <= l.name)}
			if p.hasLeft {
				p.left = l
				l, errL, moreL = nextLeft()
			}
			if p.hasRight {
				p.right = r
				r, errR, moreR = nextRight()
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}
