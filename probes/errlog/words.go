package errlog

import "strings"

// The vocabulary of mask. A word that is missing here costs a less readable
// template, never a leak: the lists say what may stay.
var (
	// sensitive words are followed by a person or a secret.
	sensitive = set(`user username users name names login account handle nick nickname email mail owner member
		password passwd pwd passphrase secret token bearer basic apikey api_key api-key access_key auth
		authorization credential credentials cookie session key`)
	// schemes name a kind of secret and are followed by it.
	schemes = set(`bearer basic digest token`)
	// glue words may follow a sensitive word and are not its value.
	glue = set(`is was are were be been not no does do did has had have already exists exist too must may can cannot
		could should would will for of on in to and or with without from by at as than that this the a an any all
		value values resolution lookup lookups check checks service server servers authentication authorization
		expired expires invalid missing required refused rejected denied failed failure fails timeout taken free
		reserved length index space table column registration follow-up filter cache error errors pair set type
		file manager limit quota input change changed update insert release released claim claimed violates
		name names user users username key keys password token`)
	// nouns may follow "for" and "of".
	nouns = set(`connection connections memory shard shards range time file files disk redis postgres database pool
		lock locks response responses request requests reply header headers service services client clients
		host address query statement message messages transaction retry retries attempts more use bounds data
		output context event events bytes sync scope date order slots sequence its it work queries process
		processes descriptors buffer buffers stream body input unique primary upstream downstream replication
		deadlock relation constraint`)
	// statusWords are followed by an HTTP status.
	statusWords = set(`status code http statuscode returned response answered http/1.0 http/1.1 http/2.0`)
	// plainKeys have values that tell errors apart: "code=timeout".
	plainKeys = set(`code layer errno level op kind status sqlstate`)
	// kept are words that look like values and are none.
	kept = set(`i/o tcp/ip and/or read/write http/1.0 http/1.1 http/2.0 tcp4 tcp6 udp4 udp6 ipv4 ipv6 utf8 utf-8 http2
		h2 sha1 sha256 md5 x509 e2big resp2 resp3 base64 int4 int8 int32 int64 uint32 uint64 float64`)
)

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}
