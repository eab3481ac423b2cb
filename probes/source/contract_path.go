package source

import "github.com/regpath/diagnose/probes"

// The documents of the contract about the path as a whole.

// Latency is GET /debug/diagnose/latency.
type Latency struct {
	Now       Time            `json:"now"`
	StartedAt Time            `json:"started_at"`
	LE        []probes.Number `json:"le"`
	Endpoints []Endpoint      `json:"endpoints"`
	Lookups   struct {
		Found   probes.Number `json:"found"`
		Missing probes.Number `json:"missing"`
	} `json:"lookups"`
	Scheduling struct {
		Stalls         probes.Number `json:"stalls"`
		StalledSeconds probes.Number `json:"stalled_seconds"`
	} `json:"scheduling"`
}

// Endpoint is what a service did for the requests to one endpoint.
type Endpoint struct {
	Endpoint    string          `json:"endpoint"`
	Requests    probes.Number   `json:"requests"`
	Errors      probes.Number   `json:"errors"`
	BusySeconds probes.Number   `json:"busy_seconds"`
	Counts      []probes.Number `json:"counts"`
	AnsweredBy  struct {
		Bloom probes.Number `json:"bloom"`
		Local probes.Number `json:"local"`
		Redis probes.Number `json:"redis"`
		Shard probes.Number `json:"shard"`
	} `json:"answered_by"`
	Layers []Leg `json:"layers"`
}

// Leg is the part of the requests to an endpoint that is spent in one layer.
type Leg struct {
	Layer       string          `json:"layer"`
	Calls       probes.Number   `json:"calls"`
	BusySeconds probes.Number   `json:"busy_seconds"`
	Counts      []probes.Number `json:"counts"`
}

// Traffic is GET /debug/diagnose/traffic.
type Traffic struct {
	Now           Time            `json:"now"`
	Since         Time            `json:"since"`
	Checks        probes.Number   `json:"checks"`
	Registrations probes.Number   `json:"registrations"`
	Names         probes.Number   `json:"names"`
	Sources       probes.Number   `json:"sources"`
	Addressed     probes.Number   `json:"addressed"`
	TopSources    []TrafficSource `json:"top_sources"`
	Lookups       probes.Number   `json:"lookups"`
	NamesLookedUp probes.Number   `json:"names_looked_up"`

	ChecksPerSecond        probes.Number `json:"checks_per_second"`
	RegistrationsPerSecond probes.Number `json:"registrations_per_second"`
	Baseline               struct {
		Seconds                probes.Number `json:"seconds"`
		ChecksPerSecond        probes.Number `json:"checks_per_second"`
		RegistrationsPerSecond probes.Number `json:"registrations_per_second"`
	} `json:"baseline"`
}

// TrafficSource is one address under a pseudonym: the true count of its requests
// lies in [Requests, Requests + Error].
type TrafficSource struct {
	Source   string        `json:"source"`
	Requests probes.Number `json:"requests"`
	Error    probes.Number `json:"error"`
}

// Clock is GET /debug/diagnose/clock.
type Clock struct {
	Now       Time `json:"now"`
	StartedAt Time `json:"started_at"`
	IDs       struct {
		Given         probes.Number `json:"given"`
		Spare         probes.Number `json:"spare"`
		Waits         probes.Number `json:"waits"`
		Refused       probes.Number `json:"refused"`
		BehindSeconds probes.Number `json:"behind_seconds"`
	} `json:"ids"`
}

// Consistency is GET /debug/diagnose/consistency/sample.
type Consistency struct {
	Now     Time          `json:"now"`
	Sampled probes.Number `json:"sampled"`
	Latest  probes.Number `json:"latest"`
	Redis   CachedNames   `json:"redis"`
	Local   CachedNames   `json:"local"`
	Shards  []struct {
		Shard   string        `json:"shard"`
		Sampled probes.Number `json:"sampled"`
		Error   string        `json:"error"`
	} `json:"shards"`
	States struct {
		Released probes.Number `json:"released"`
		TooEarly probes.Number `json:"too_early"`
	} `json:"states"`
}

// CachedNames is what a cache says about names that have an owner.
type CachedNames struct {
	Asked probes.Number `json:"asked"`
	Taken probes.Number `json:"taken"`
	Free  probes.Number `json:"free"`
	Error string        `json:"error"`
}
