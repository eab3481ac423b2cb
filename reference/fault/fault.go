// Package fault holds the faults that a checker can be given while it runs.
// Each has its physical effect, a filter that is too small, a pool that is used
// up, a server that is gone, and never a number made up; switched off, the
// checker is well again. The package also lists the scenarios of the demo.
package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// ErrUnknown says that there is no fault of that name.
var ErrUnknown = errors.New("unknown fault")

// Fault is something that can be broken and mended.
type Fault struct {
	Name, Help string
	// On breaks and Off mends. Both return when the effect is there, are called
	// alternately, On first, and never at the same time as another fault's.
	On, Off func(ctx context.Context) error
}

// State is a fault and whether it is on.
type State struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
	Help string `json:"help"`
}

// Registry switches faults. It is safe for concurrent use.
type Registry struct {
	mu     sync.Mutex
	faults []Fault
	on     map[string]bool
}

// NewRegistry returns a registry of faults that are all off.
func NewRegistry(faults []Fault) *Registry {
	return &Registry{faults: faults, on: map[string]bool{}}
}

// List returns the state of every fault, in a fixed order.
func (r *Registry) List() []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]State, len(r.faults))
	for i, f := range r.faults {
		out[i] = State{Name: f.Name, On: r.on[f.Name], Help: f.Help}
	}
	return out
}

// Switch brings the named fault into the state wanted, if it is not in it, and
// returns when the effect is there. After an error the state is as before.
func (r *Registry) Switch(ctx context.Context, name string, on bool) (State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.faults {
		if f.Name != name {
			continue
		}
		if r.on[name] != on {
			do, verb := f.On, "switch on"
			if !on {
				do, verb = f.Off, "switch off"
			}
			if err := do(ctx); err != nil {
				return State{}, fmt.Errorf("%s %s: %w", verb, name, err)
			}
			r.on[name] = on
		}
		return State{Name: name, On: on, Help: f.Help}, nil
	}
	return State{}, fmt.Errorf("%w %q", ErrUnknown, name)
}

// AllOff mends everything that is broken and goes on after an error.
func (r *Registry) AllOff(ctx context.Context) error {
	var errs []error
	for _, s := range r.List() {
		_, err := r.Switch(ctx, s.Name, false)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// switchTimeout bounds one switch over HTTP: a rebuild, or the start of a
// server.
const switchTimeout = time.Minute

// Handler serves the registry under /debug/fault/.
func (r *Registry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/fault/{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, struct {
			Faults []State `json:"faults"`
		}{r.List()})
	})
	turn := func(on bool) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			// A client that goes away must not leave a fault half switched.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), switchTimeout)
			defer cancel()
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(switchTimeout + time.Second)) // not all writers can
			state, err := r.Switch(ctx, req.PathValue("name"), on)
			switch {
			case errors.Is(err, ErrUnknown):
				answer(w, http.StatusNotFound, failure{err.Error()})
			case err != nil:
				answer(w, http.StatusInternalServerError, failure{err.Error()})
			default:
				answer(w, http.StatusOK, state)
			}
		}
	}
	mux.HandleFunc("POST /debug/fault/{name}", turn(true))
	mux.HandleFunc("DELETE /debug/fault/{name}", turn(false))
	return mux
}

type failure struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone away needs no answer
}
