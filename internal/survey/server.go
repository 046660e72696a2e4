package survey

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/refusal"
)

// A Server is what a server tells of itself.
type Server struct {
	Client rueidis.Client

	User      string // "": it may not ask
	Info      map[string]string
	InfoErr   error
	Config    map[string]string
	ConfigErr error
	Withheld  string // why a setting is not known

	Ahead   time.Duration // of the server's clock before ours
	Give    time.Duration // and by how much that may be wrong
	Trip    time.Duration // the median round trip
	TimeErr error
}

// settings are what is asked for of CONFIG GET, one by one: servers before Redis 7 take no more at once.
var settings = []string{
	"appendfsync", "save", "stop-writes-on-bgsave-error", "min-replicas-to-write", "min-replicas-max-lag", "timeout",
	"tcp-keepalive", "client-output-buffer-limit", "maxclients", "lua-time-limit",
}

// Learn asks the server for all of it. The error is that it cannot be talked to.
func (s *Server) Learn(ctx context.Context) error {
	b := s.Client.B()
	// Whoever may connect may ask HELLO, so what it answers tells whether the server can be talked to.
	hello, err := s.Client.Do(ctx, b.Arbitrary("HELLO").Build()).AsMap()
	if err != nil && !refusal.Is(err) {
		return err
	}
	asked := rueidis.Commands{b.AclWhoami().Build(), b.Info().Build()}
	for _, name := range settings {
		asked = append(asked, b.ConfigGet().Parameter(name).Build())
	}
	answers := s.Client.DoMulti(ctx, asked...)
	if user, err := answers[0].ToString(); err == nil {
		s.User = user
	}
	var text string
	text, s.InfoErr = answers[1].ToString()
	s.Info, s.Config = Fields(text), make(map[string]string)
	for field, key := range map[string]string{"redis_version": "version", "role": "role", "redis_mode": "mode"} {
		text := hello[key] // HELLO tells that, too
		told, _ := text.ToString()
		s.Info[field] = cmp.Or(s.Info[field], told)
	}
	s.Withheld = "does not tell"
	for _, answer := range answers[2:] {
		setting, err := answer.AsStrMap()
		if err != nil {
			s.ConfigErr, s.Withheld = err, "is refused"
			break
		}
		maps.Copy(s.Config, setting)
	}
	s.TimeErr = s.measure(ctx)
	return nil
}

// Fields splits what INFO answers.
func Fields(text string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // with which RESP3 begins texts
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}

// Replica reports whether the server is a replica.
func (s *Server) Replica() bool { return s.Info["role"] == "slave" || s.Info["role"] == "replica" }

// Number is a field of INFO, 0 if it is none.
func (s *Server) Number(field string) int64 {
	value, _ := strconv.ParseInt(s.Info[field], 10, 64)
	return value
}

// Setting is a number of the configuration, and whether it is known.
func (s *Server) Setting(name string) (value int64, known bool) {
	value, err := strconv.ParseInt(s.Config[name], 10, 64)
	return value, err == nil
}

// Samples is of how many round trips Trip is the median.
const Samples = 20

// measure asks for the time several times, so that one slow reply does no harm. It uses TIME and not PING because
// sessions need that right anyway.
func (s *Server) measure(ctx context.Context) error {
	trips := make([]time.Duration, 0, Samples)
	for range Samples {
		sent := time.Now()
		answer, err := s.Client.Do(ctx, s.Client.B().Time().Build()).AsIntSlice()
		trip := time.Since(sent)
		if err == nil && len(answer) != 2 {
			err = errors.New("the reply to TIME is not a time")
		}
		if err != nil {
			return err
		}
		if len(trips) == 0 || trip/2 < s.Give {
			s.Give = trip / 2
			s.Ahead = time.Unix(answer[0], answer[1]*1000).Sub(sent.Add(trip / 2))
		}
		trips = append(trips, trip)
	}
	slices.Sort(trips)
	s.Trip = trips[len(trips)/2]
	return nil
}

// Do runs any command.
func (s *Server) Do(ctx context.Context, args ...string) rueidis.RedisResult {
	return s.Client.Do(ctx, s.Client.B().Arbitrary(args...).Build())
}
