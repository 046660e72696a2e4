package campaign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tests/interop"
)

// A deed is what a thread in Java tells of a call, twice: when it begins and when it has returned. Historian.java says
// it.
type deed struct {
	Client, Serial   int
	Lock, Half, Kind string
	Tag, Out         string
	Call, Return     time.Duration
	Until            time.Duration // what the take got cannot have ended by then
}

// addJava makes tenures of what threads in Java had. They cannot be asked what they believe: what is certain is that
// nobody else had it before they began to release it, as long as the lease of their call lasted.
func (a *account) addJava(deeds map[string]deed) {
	all := slices.SortedFunc(maps.Values(deeds), func(x, y deed) int {
		return cmp.Or(cmp.Compare(x.Client, y.Client), cmp.Compare(x.Serial, y.Serial))
	})
	type holding struct {
		asked time.Duration
		from  time.Duration
		until time.Duration
		count int
	}
	open := map[string]*holding{} // by client and half
	end := func(d deed, at time.Duration) {
		k := fmt.Sprint(d.Client, d.Half)
		h := open[k]
		if h == nil {
			return
		}
		delete(open, k)
		if to := min(at, h.until); to > h.from {
			a.tenures = append(a.tenures, tenure{
				client: d.Client, object: object{a.round.Java, d.Lock}, shares: d.Half == "read", count: h.count,
				asked: h.asked, from: h.from, to: to, java: true,
			})
		}
	}
	for _, d := range all {
		k := fmt.Sprint(d.Client, d.Half)
		kind, number, _ := strings.Cut(d.Kind, " ")
		may := tenure{object: object{a.round.Java, d.Lock}, from: d.Call, to: a.ended}
		if d.Return > 0 { // a watchdog may have renewed what it had until then
			may.to = d.Return + a.round.Lease
		}
		a.perhaps = append(a.perhaps, may)
		if d.Return == 0 { // its process was killed
			continue
		}
		switch {
		case kind == "acquire" && d.Out == "done":
			n := 0
			_, _ = fmt.Sscan(number, &n)
			until := a.ended
			if a.round.Java == "permits" {
				until = d.Call + a.round.Lease - interop.Slack
			}
			open[k] = &holding{asked: d.Call, from: d.Return, until: until, count: n}
		case kind == "give":
			end(d, d.Call)
		case kind == "take" && d.Out == "done":
			open[k] = &holding{asked: d.Call, from: d.Return, until: d.Call + a.round.Lease - interop.Slack, count: 1}
		case kind == "re-enter" && d.Out == "done" && open[k] == nil && d.Until > 0:
			open[k] = &holding{asked: d.Call, from: d.Return, until: d.Until, count: 1}
		case kind == "release":
			// The first release of several ends what is certain: a later one may find the last count.
			end(d, d.Call)
		}
	}
}
