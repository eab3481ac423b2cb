package rediscache

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// maxRows bounds each table.
const maxRows = 5

// recordDetails records what the last sample tells beside INFO, of the service's own
// connections by the name that it gives them.
func recordDetails(rec *probes.Recorder, service source.RedisClient, s serverSample) {
	err := s.err
	if err == nil {
		err = s.detailsErr
	}
	if err == nil && s.details == nil {
		err = errors.New("no second sample")
	}
	if err != nil {
		lack(rec, err, names(detailFacts())...)
		return
	}
	now := serverTime(s)
	recordSlowLog(rec, s, now)
	recordStalls(rec, s.details, now)
	recordConnections(rec, service, s.details)
}

// serverTime is the time by the server's clock, by which it dates its entries;
// by the agent's, where it does not tell.
func serverTime(s serverSample) time.Time {
	if micros, known := s.info.Number("server_time_usec").Get(); known {
		return time.UnixMicro(int64(micros))
	}
	return s.sample.Taken
}

// addRows adds the largest rows of a table.
func addRows(rec *probes.Recorder, rows []probes.Row) {
	slices.SortFunc(rows, func(a, b probes.Row) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Key, b.Key))
	})
	for _, row := range rows[:min(len(rows), maxRows)] {
		rec.Row(row)
	}
}
