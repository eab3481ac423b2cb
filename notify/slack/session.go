package slack

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/regpath/diagnose/notify"
)

// session is one Notify or Detail under way; at grows as messages land.
type session struct {
	bot *Bot
	n   notify.Notice
	at  notify.Receipt
	// reserve says that it may take from the reserve of a pace.
	reserve bool
}

// The parts of an incident that have messages of their own, as their metadata
// names them.
const (
	partMain   = "main"
	partDetail = "detail-" // and the number of the page
	partLater  = "later-"  // and the phase: said in the thread of a message that cannot be edited
)

// say brings the incident's message to its present state.
func (s *session) say(ctx context.Context, m message) error {
	if s.at.Instead != "" {
		m = m.instead(s.at.Instead)
	}
	if s.at.Message != "" {
		err := s.bot.update(ctx, s.at.Channel, s.at.Message, m, s.reserve)
		switch {
		case cannotEdit(err):
			later := s.post(s.at.Message, partLater+strconv.Itoa(int(s.n.Phase)))
			later.mayExist = true // the receipt has no room for it
			_, err = s.bot.post(ctx, later, m)
			if !noThread(err) {
				return err
			}
		case !isGone(err) && !s.canEvade(err):
			return err
		}
		s.at.Message, s.at.Detail = "", ""
	}
	landed, err := s.bot.post(ctx, s.post("", partMain), m)
	if s.canEvade(err) {
		landed, err = s.evade(ctx, m, err)
	}
	if err == nil {
		s.at.Channel, s.at.Message = landed.channel, landed.ts
		if s.at.Instead == "" {
			s.bot.id.CompareAndSwap(nil, &landed.channel)
		}
	}
	return err
}

// canEvade reports whether err says that the channel is closed to us while there
// is another one.
func (s *session) canEvade(err error) bool {
	return err != nil && s.bot.fallback != "" && s.at.Instead == "" && notify.ClassOf(err) == notify.Destination
}

// evade posts into the fallback channel, saying why.
func (s *session) evade(ctx context.Context, m message, why error) (place, error) {
	s.at.Instead = notify.Line(why.Error(), 300)
	to := s.post("", partMain)
	landed, err := s.bot.post(ctx, to, m.instead(s.at.Instead))
	if err != nil {
		s.at.Instead = ""
		if e, ok := errors.AsType[*notify.Error](err); ok {
			both := *e
			both.Err = fmt.Errorf("%w; in its place: %w", why, e.Err)
			return landed, &both
		}
		return landed, err
	}
	return landed, nil
}

// detail brings the detail messages in the thread to their present state, but for
// those that are in it: an attempt goes on where the last one failed.
func (s *session) detail(ctx context.Context) error {
	pages, err := details(s.n)
	if err != nil {
		return &notify.Error{Class: notify.Payload, Err: err}
	}
	have := pagesOf(s.at.Detail)
	for i := len(pages); i < len(have); i++ {
		pages = append(pages, message{text: "This part is no longer needed."})
	}
	for i, content := range pages {
		sum := content.sum()
		if i < len(have) {
			if s.n.Phase == notify.Resolved || have[i].sum == sum {
				continue
			}
			err := s.bot.update(ctx, s.at.Channel, have[i].ts, content, s.reserve)
			if err == nil {
				have[i].sum = sum
				s.at.Detail = spellPages(have)
				continue
			}
			if !isGone(err) && !cannotEdit(err) {
				return err
			}
		}
		landed, err := s.bot.post(ctx, s.post(s.at.Message, partDetail+strconv.Itoa(i+1)), content)
		if err != nil {
			return err
		}
		if i < len(have) {
			have[i] = page{landed.ts, sum}
		} else {
			have = append(have, page{landed.ts, sum})
		}
		s.at.Detail = spellPages(have)
	}
	return nil
}

// post says where a part of the incident goes: into the thread of a message, or
// into the channel when thread is empty.
func (s *session) post(thread, part string) target {
	t := target{channel: s.bot.channel, thread: thread, incident: s.n.Incident.ID, part: part, mayExist: s.n.Uncertain, reserve: s.reserve}
	if thread != "" {
		t.channel = s.at.Channel
	} else if s.at.Instead != "" {
		t.channel = s.bot.fallback
	} else if id := s.bot.id.Load(); id != nil {
		t.channel = *id
	}
	return t
}
