package playbooks

// The thresholds of the confidence; the package documentation has the table.
// With High at three quarters, one unknown in four may be missing; Medium at
// 0.4 wants clearly more for the cause than against it and unknown together.
const (
	highScore   = 0.75
	mediumScore = 0.4
)

// balance is the weight of the signals of a cause by how they turned out.
type balance struct{ agree, disagree, unknown float64 }

func weights(t *trial) balance {
	return balance{agree: sum(t.agree), disagree: sum(t.disagree), unknown: sum(t.unknown)}
}

func sum(signals []Signal) (total float64) {
	for _, s := range signals {
		total += s.Weight
	}
	return total
}

// confidence says how far a matched cause is backed by its own signs.
func confidence(b balance) Confidence {
	total := b.agree + b.disagree + b.unknown
	if total == 0 {
		return Medium
	}
	switch score := (b.agree - b.disagree) / total; {
	case score >= highScore && b.disagree == 0:
		return High
	case score >= mediumScore:
		return Medium
	}
	return Low
}

func lesser(a, b Confidence) Confidence {
	if rank(b) < rank(a) {
		return b
	}
	return a
}

func rank(c Confidence) int {
	switch c {
	case High:
		return 2
	case Medium:
		return 1
	case Low:
		return 0
	}
	return 0
}
