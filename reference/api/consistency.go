package api

import (
	"context"
	"net/http"
	"time"

	"github.com/regpath/diagnose/reference"
)

type clockDoc struct {
	Now       time.Time `json:"now"`
	StartedAt time.Time `json:"started_at"`
	IDs       idsDoc    `json:"ids"`
}

type idsDoc struct {
	Given         uint64  `json:"given"`
	Spare         uint64  `json:"spare"`
	Waits         uint64  `json:"waits"`
	Refused       uint64  `json:"refused"`
	BehindSeconds float64 `json:"behind_seconds"`
}

func (s *Server) clockDoc() clockDoc {
	ids := s.service.IDs.Stats()
	return clockDoc{
		Now: time.Now(), StartedAt: s.startedAt,
		IDs: idsDoc{Given: ids.Given, Spare: ids.Spare, Waits: ids.Waits, Refused: ids.Refused, BehindSeconds: ids.Behind.Seconds()},
	}
}

type consistencyDoc struct {
	Now     time.Time        `json:"now"`
	Sampled int              `json:"sampled"`
	Latest  int              `json:"latest"`
	Redis   cachedDoc        `json:"redis"`
	Local   cachedDoc        `json:"local"`
	Shards  []verifyShardDoc `json:"shards"`
	States  statesDoc        `json:"states"`
}

// cachedDoc leaves out what a cache says that could not be asked.
type cachedDoc struct {
	Asked *int   `json:"asked,omitempty"`
	Taken *int   `json:"taken,omitempty"`
	Free  *int   `json:"free,omitempty"`
	Error string `json:"error,omitempty"`
}

type statesDoc struct {
	Released int `json:"released"`
	TooEarly int `json:"too_early"`
}

// serveConsistency compares what the layers say about the same names.
func (s *Server) serveConsistency(w http.ResponseWriter, r *http.Request) {
	n, minAge, err := verifyQuery(r.URL)
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), verifyTimeout)
	defer cancel()
	c := s.service.Compare(ctx, n, time.Now().Add(-minAge))
	doc := consistencyDoc{
		Sampled: c.Sampled, Latest: c.Latest, Redis: newCachedDoc(c.Redis), Local: newCachedDoc(c.Local),
		Shards: []verifyShardDoc{}, States: statesDoc{Released: c.Released, TooEarly: c.TooEarly},
	}
	for _, v := range c.Shards {
		d := verifyShardDoc{Shard: v.Shard, Sampled: &v.Sampled}
		if v.Err != nil {
			d.Sampled, d.Error = nil, shortError(v.Err)
		}
		doc.Shards = append(doc.Shards, d)
	}
	doc.Now = time.Now()
	write(w, http.StatusOK, doc)
}

func newCachedDoc(c reference.Cached) cachedDoc {
	if c.Err != nil {
		return cachedDoc{Error: shortError(c.Err)}
	}
	return cachedDoc{Asked: &c.Asked, Taken: &c.Taken, Free: &c.Free}
}
