package rediscache

import (
	"context"
	"errors"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// The budget of a check, in commands.
const (
	maxCommands = 12
	// lastTrip is what the last samples take: INFO, and the three of details, or
	// INFO again over a new connection, which takes two to set up.
	lastTrip = 4
)

// serverSample is what the server says about itself at one moment.
type serverSample struct {
	info   source.Info
	sample source.Sample
	pings  []float64 // round trips
	// details are what was asked beside INFO, with the last sample; detailsErr
	// says why there are none.
	details    *source.Details
	detailsErr error
	err        error
	// told is false when there is no server to ask, or the run ended first:
	// then nothing is known about it, not even that it is dead.
	told bool
}

// moments are when the further PINGs are sent, as parts of the window. Back to
// back they would all hit the same gap between two stalls; at even distances
// they would keep step with stalls that come as regularly.
var moments = [...]float64{0.13, 0.31, 0.52, 0.69, 0.91}

// readServer sends the first PING and the first INFO.
func (p *probe) readServer(ctx context.Context, rec *probes.Recorder) serverSample {
	if p.server == nil {
		return serverSample{err: source.NotOffered("no Redis server is configured: set its address to measure the server itself")}
	}
	took, err := p.server.Ping(ctx, rec.Cost())
	if err != nil && !errors.Is(err, source.ErrAnswered) { // an error is an answer, too
		return serverSample{err: err, told: told(err)}
	}
	return p.readInfo(ctx, rec, []float64{took.Seconds()})
}

// watch sends the further PINGs over the window that has just begun. It returns
// their round trips and what they cost when done is closed or one fails; one
// that is under way then is waited for. Where connections were lost there are
// fewer of them, so that the last samples can still be taken.
func (p *probe) watch(ctx context.Context, done <-chan struct{}, spent int) (took []float64, cost probes.Cost, err error) {
	start := time.Now()
	for _, m := range moments {
		if spent+cost.RedisCommands+1+lastTrip > maxCommands {
			break
		}
		timer := time.NewTimer(time.Until(start.Add(time.Duration(m * float64(p.window)))))
		select {
		case <-timer.C:
		case <-done:
			timer.Stop()
			return took, cost, nil
		}
		d, err := p.server.PingKept(ctx, &cost)
		if err != nil && !errors.Is(err, source.ErrAnswered) {
			return took, cost, err
		}
		took = append(took, d.Seconds())
	}
	return took, cost, nil
}

func (p *probe) readInfo(ctx context.Context, rec *probes.Recorder, took []float64) serverSample {
	info, d, err := p.server.Info(ctx, rec.Cost())
	if err == nil {
		took = append(took, d.Seconds())
	}
	return serverSample{
		info: info, err: err, pings: took, told: err == nil || told(err),
		sample: source.Sample{Taken: time.Now(), Epoch: info["run_id"]},
	}
}

// told reports whether err says something about the server.
func told(err error) bool { return !errors.Is(err, source.ErrInterrupted) }

// maxListed is the largest number of connections that are listed: a list of a
// thousand is 250 KB and holds the server up for half a millisecond; one of ten
// thousand would hurt it (measured, Redis 7.0).
const maxListed = 1000

// readDetails asks what INFO does not tell, as far as the budget allows.
func (p *probe) readDetails(ctx context.Context, rec *probes.Recorder, s *serverSample) {
	left := maxCommands - rec.Cost().RedisCommands
	if left < lastTrip-2 {
		s.detailsErr = errUsedUp
		return
	}
	var why error
	switch {
	case left < lastTrip-1:
		why = errUsedUp
	case s.info.Number("connected_clients").Or(0) > maxListed:
		why = source.NotOffered("more than 1,000 connections are not listed, so as not to hold the server up")
	}
	d, err := p.server.Details(ctx, rec.Cost(), why == nil)
	if why != nil {
		d.ClientsErr = why
	}
	s.details, s.detailsErr = &d, err
}

// errUsedUp says that nothing more may be asked.
var errUsedUp = errors.New("the connection was lost, and what a run may ask was used up")
