package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// request is one thing to ask of the checker.
type request struct {
	name     string
	register bool
	from     int // which address
	due      time.Time
}

// mix chooses the requests of a profile. It depends on nothing but the profile.
type mix struct {
	profile Profile
	random  *rand.Rand
	zipf    []float64 // cumulative weights of the existing names
	free    int       // free names used so far
	offset  uint64    // of the seed's free names
}

func newMix(p Profile) *mix {
	m := &mix{profile: p, random: rand.New(rand.NewPCG(uint64(p.Seed), 0))}
	m.offset = m.random.Uint64()
	m.zipf = make([]float64, p.Names)
	sum := 0.0
	for i := range m.zipf {
		sum += math.Pow(float64(i+1), -p.ZipfS)
		m.zipf[i] = sum
	}
	return m
}

func (m *mix) next() request {
	r := m.choose()
	if m.profile.Addresses > 1 {
		r.from = m.random.IntN(m.profile.Addresses)
	}
	return r
}

func (m *mix) choose() request {
	switch {
	case m.chance(m.profile.HotShare):
		return request{name: m.profile.HotName, register: m.profile.HotRegister}
	case m.chance(m.profile.RegisterShare):
		return request{name: m.freeName(), register: true}
	case m.chance(m.profile.TakenShare):
		return request{name: m.takenName()}
	default:
		return request{name: m.freeName()}
	}
}

func (m *mix) chance(share float64) bool { return m.random.Float64() < share }

func (m *mix) takenName() string {
	at := m.random.Float64() * m.zipf[len(m.zipf)-1]
	i, _ := slices.BinarySearch(m.zipf, at)
	return Name(i)
}

// freeName is a name that this run has not used before and, but for an accident of one in billions, no run with another
// seed: adding and multiplying by an odd number modulo 2^52 gives each count another number. One in four has punctuation, as
// people's names have it: a class of its own for whoever spells one class of names wrong.
func (m *mix) freeName() string {
	const modulus = 1 << 52
	n := (uint64(m.free) + m.offset) * 0x9e3779b97f4a7c15 % modulus
	m.free++
	if n%4 == 0 {
		return "new_" + strconv.FormatUint(n, 36)
	}
	return "new" + strconv.FormatUint(n, 36)
}

// Name is the i-th existing name. Names are canonical already, all different, and none is ever used as a free one.
func Name(i int) string {
	given := [...]string{
		"ada", "amir", "anna", "ben", "carla", "chen", "dana", "diego", "elif", "emma", "fatima", "felix", "grace", "hana",
		"ivan", "jonas", "kofi", "lena", "lucas", "maria", "mei", "nadia", "noah", "olga", "omar", "priya", "rosa", "sven",
		"tara", "viktor", "yuki", "zoe",
	}
	return given[i%len(given)] + strconv.Itoa(i/len(given))
}
