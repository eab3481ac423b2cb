package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// Sender is an Alertmanager that posts here and can be asked what fires.
type Sender struct {
	// URL is where it serves its API, up to and without /api.
	URL string
	// Token is sent as a bearer token; none when empty.
	Token string
	// Receiver is what it calls the receiver that posts here.
	Receiver string
}

const (
	// askTimeout bounds one question.
	askTimeout = 10 * time.Second
	// maxAnswer bounds the answer, in bytes: ten thousand alerts are some 8 MiB.
	maxAnswer = 64 << 20
)

// group is a group of alerts as a sender has it now.
type group struct {
	Labels   map[string]string `json:"labels"`
	Receiver struct {
		Name string `json:"name"`
	} `json:"receiver"`
	Alerts []listed `json:"alerts"`
}

// listed is an alert that has not ended.
type listed struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
	Status       struct {
		State string `json:"state"`
	} `json:"status"`
}

// active says that the alert is neither silenced nor inhibited.
func (l *listed) active() bool { return l.Status.State == "active" }

// alert is what the webhook would have said of it.
func (l *listed) alert() playbooks.Alert {
	return playbooks.Alert{
		Fingerprint: l.Fingerprint, Firing: true, Labels: l.Labels, Annotations: l.Annotations,
		StartsAt: l.StartsAt.UTC(), GeneratorURL: l.GeneratorURL,
	}
}

// ask returns the groups that have not ended and are for the receiver. An error
// means that nothing is known: an answer is taken whole or not at all. It shows
// neither the URL nor the token.
func (s *Sender) ask(ctx context.Context, client *http.Client) ([]group, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	query := url.Values{"receiver": {"^(?:" + regexp.QuoteMeta(s.Receiver) + ")$"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.URL, "/")+"/api/v2/alerts/groups?"+query.Encode(), nil)
	if err != nil {
		return nil, errors.New("the URL cannot be used")
	}
	if s.Token != "" {
		r.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := client.Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err
	}
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("answered %d", resp.StatusCode)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	all, err := decodeGroups(body)
	if err != nil {
		return nil, fmt.Errorf("the answer makes no sense: %w", err)
	}
	var ours []group
	for _, g := range all {
		if g.Receiver.Name == s.Receiver {
			ours = append(ours, g)
		}
	}
	return ours, nil
}

// decodeGroups reads an answer. Unlike a notification, which is lost when it is
// refused, an answer that is odd anywhere is better not believed: another one
// comes in a minute.
func decodeGroups(body []byte) ([]group, error) {
	if err := checkEncoding(body); err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(body); trimmed[0] != '[' {
		return nil, errors.New("it is no list of groups")
	}
	var all []group
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, errors.New("it is no list of groups in JSON") // whose text would quote it
	}
	for i, g := range all {
		if g.Receiver.Name == "" || len(g.Alerts) == 0 {
			return nil, fmt.Errorf("group %d has no receiver or no alerts", i)
		}
		for j, a := range g.Alerts {
			if err := a.check(); err != nil {
				return nil, fmt.Errorf("group %d, alert %d: %w", i, j, err)
			}
		}
	}
	return all, nil
}

// check says what an alert lacks.
func (l *listed) check() error {
	switch state := l.Status.State; {
	case state != "active" && state != "suppressed" && state != "unprocessed":
		return errors.New("its state is unknown")
	case len(l.Labels) == 0:
		return errors.New("it has no labels")
	case l.StartsAt.IsZero():
		return errors.New("it has no start")
	case l.Fingerprint != fingerprint(l.Labels):
		return errors.New("its fingerprint is not that of its labels")
	}
	return nil
}
