package fault

import (
	"time"

	"github.com/regpath/diagnose/reference/load"
)

// HotName is the name that everybody wants. Like the names of package load it
// is registered from the beginning.
const HotName = "love"

// Scenario is a case for the demo: what is wrong, what is asked of the checker
// meanwhile, and what should be found.
type Scenario struct {
	Name, Help string
	// Cause is the id of the root cause that a diagnosis should find; empty when
	// the checker is well.
	Cause string
	// Fault is the fault to switch on; empty when the load alone is the trouble.
	// The fault hot-name brings its own, for whoever switches by hand.
	Fault string
	// Load runs from before the fault to after the diagnosis.
	Load load.Profile
}

// The load that all scenarios have in common, in requests per second. It is
// comfortable on two cores. More names are asked for than the local cache
// holds, so that Redis has work.
const (
	takenChecks   = 900.0
	freeChecks    = 600.0
	registrations = 5.0
	zipf          = 0.7
	// clients is from how many addresses it comes.
	clients = 64
	// hotPerSecond is how often somebody wants the hot name: about as often as
	// all other requests reach one shard together.
	hotPerSecond = 500.0
)

// Loads returns what may be asked of a checker beside the scenarios, with no fault
// to find: what gives it away are the figures of the guard and of the filter.
func Loads(names int, duration time.Duration) []Scenario {
	base := load.Profile{Duration: duration, Workers: 256, Names: names, ZipfS: zipf, TakenShare: 0.3, Seed: 2}
	flood, promotion := base, base
	flood.Rate, flood.RegisterShare = 1500, 0.3
	promotion.Rate, promotion.RegisterShare, promotion.TakenShare, promotion.Addresses = 5000, 0.01, 0.1, clients
	return []Scenario{
		{Name: "bot-flood", Help: "one address checks and registers free names as fast as it can", Load: flood},
		{Name: "promotion", Help: "many come at once for names that are free", Load: promotion},
	}
}

// Scenarios returns the scenarios for a checker with the number of names given.
// Every load lasts for the time given.
func Scenarios(names int, duration time.Duration) []Scenario {
	// base is the common load with extra checks of free names on top.
	base := func(extraFree float64) load.Profile {
		free := freeChecks + extraFree
		return load.Profile{
			Rate:          takenChecks + free + registrations,
			Duration:      duration,
			Workers:       256,
			Names:         names,
			ZipfS:         zipf,
			RegisterShare: registrations / (takenChecks + free + registrations),
			TakenShare:    takenChecks / (takenChecks + free),
			Addresses:     clients,
			Seed:          1,
		}
	}
	hot := func(perSecond float64) load.Profile {
		p := base(0)
		p.HotName, p.HotRegister, p.HotShare = HotName, true, perSecond/(p.Rate+perSecond)
		p.Rate += perSecond
		return p
	}
	return []Scenario{
		{
			Name: "bloom-undersized", Help: "the Bloom filter was sized for a fifth of the names there are now",
			Cause: "bloom-undersized", Fault: "bloom-undersized", Load: base(0),
		},
		{
			Name: "write-on-read", Help: "a flag makes the query path write to the Bloom filter, during a promotion that brings many new names",
			Cause: "bloom-write-on-read", Fault: "write-on-read", Load: base(3500),
		},
		{
			Name: "hot-name", Help: "everybody tries to register the same name, and one shard bears it",
			Cause: "hot-name", Load: hot(hotPerSecond),
		},
		{
			Name: "redis-pool", Help: "Redis is further away than it was and the pool too small for the way",
			Cause: "redis-pool-too-small", Fault: "redis-pool", Load: base(0),
		},
		{
			Name: "redis-pool-leak", Help: "connections to Redis are taken and never given back",
			Cause: "redis-pool-leak", Fault: "redis-pool-leak", Load: base(0),
		},
		{
			Name: "redis-down", Help: "Redis is gone",
			Cause: "redis-down", Fault: "redis-down", Load: base(0),
		},
		{
			Name: "shard-down", Help: "one shard is gone",
			Cause: "shard-down", Fault: "shard-down", Load: base(0),
		},
		{
			Name: "error-burst", Help: "registrations began to log an error when the follow-up URL was changed",
			Cause: "error-after-change", Fault: "error-burst", Load: base(0),
		},
		{
			Name: "healthy", Help: "nothing is wrong, under the same load",
			Load: base(0),
		},
	}
}
