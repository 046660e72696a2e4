package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// A node is one server, and what it tells of itself.
type node struct {
	addr   string
	client rueidis.Client
	master bool
	err    error // it cannot be talked to

	user      string // "": it may not ask
	info      map[string]string
	infoErr   error
	config    map[string]string
	configErr error
	withheld  string // why a setting is not known

	ahead   time.Duration // of the server's clock before ours
	give    time.Duration // and by how much that may be wrong
	trip    time.Duration // the median round trip
	timeErr error
}

// settings are what is asked for of CONFIG GET, one by one: servers before Redis 7 take no more at once.
var settings = []string{
	"appendfsync", "save", "stop-writes-on-bgsave-error", "min-replicas-to-write", "min-replicas-max-lag", "timeout",
	"tcp-keepalive", "client-output-buffer-limit", "maxclients", "lua-time-limit",
}

// learn asks the server for all that more than one check needs.
func (n *node) learn(ctx context.Context) {
	b := n.client.B()
	// Whoever may connect may ask HELLO, so what it answers tells whether the server can be talked to.
	hello, err := n.client.Do(ctx, b.Arbitrary("HELLO").Build()).AsMap()
	if err != nil && !cli.Answered(err) {
		n.err = err
		return
	}
	asked := rueidis.Commands{b.AclWhoami().Build(), b.Info().Build()}
	for _, name := range settings {
		asked = append(asked, b.ConfigGet().Parameter(name).Build())
	}
	answers := n.client.DoMulti(ctx, asked...)
	if user, err := answers[0].ToString(); err == nil {
		n.user = user
	}
	var text string
	text, n.infoErr = answers[1].ToString()
	n.info, n.config = fields(text), make(map[string]string)
	for field, key := range map[string]string{"redis_version": "version", "role": "role", "redis_mode": "mode"} {
		text := hello[key] // HELLO tells that, too
		told, _ := text.ToString()
		n.info[field] = cmp.Or(n.info[field], told)
	}
	n.withheld = "does not tell"
	for _, answer := range answers[2:] {
		setting, err := answer.AsStrMap()
		if err != nil {
			n.configErr, n.withheld = err, "is refused"
			break
		}
		maps.Copy(n.config, setting)
	}
	n.timeErr = n.measure(ctx)
}

// fields splits what INFO answers.
func fields(text string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // with which RESP3 begins texts
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}

// replica reports whether the server is a replica.
func (n *node) replica() bool { return n.info["role"] == "slave" || n.info["role"] == "replica" }

// number is a field of INFO, 0 if it is none.
func (n *node) number(field string) int64 {
	value, _ := strconv.ParseInt(n.info[field], 10, 64)
	return value
}

// setting is a number of the configuration, and whether it is known.
func (n *node) setting(name string) (value int64, known bool) {
	value, err := strconv.ParseInt(n.config[name], 10, 64)
	return value, err == nil
}

const samples = 20

// measure asks for the time several times, so that one slow reply does no harm. It uses TIME and not PING because
// sessions need that right anyway.
func (n *node) measure(ctx context.Context) error {
	trips := make([]time.Duration, 0, samples)
	for range samples {
		sent := time.Now()
		answer, err := n.client.Do(ctx, n.client.B().Time().Build()).AsIntSlice()
		trip := time.Since(sent)
		if err == nil && len(answer) != 2 {
			err = errors.New("the reply to TIME is not a time")
		}
		if err != nil {
			return err
		}
		if len(trips) == 0 || trip/2 < n.give {
			n.give = trip / 2
			n.ahead = time.Unix(answer[0], answer[1]*1000).Sub(sent.Add(trip / 2))
		}
		trips = append(trips, trip)
	}
	slices.Sort(trips)
	n.trip = trips[len(trips)/2]
	return nil
}

// size is a number of bytes for people.
func size(bytes int64) string {
	const mega = 1 << 20
	switch {
	case bytes >= mega<<10:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(mega<<10))
	case bytes >= mega:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mega)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// do runs any command.
func (n *node) do(ctx context.Context, args ...string) rueidis.RedisResult {
	return n.client.Do(ctx, n.client.B().Arbitrary(args...).Build())
}
