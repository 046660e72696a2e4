package peers

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A series is a line of a plot. NaN leaves a point out.
type series struct {
	name string
	y    []float64
}

const (
	left, right, top, bottom = 72.0, 560.0, 24.0, 372.0 // of the area of a plot
	lineHeight               = 14.0
)

var colours = []string{"#080", "#c60", "#04c", "#999", "#b0b", "#0a9", "#a00", "#06a", "#960", "#555", "#39f"}

// draw plots the series over evenly spaced values of x, with a logarithmic axis of y.
func draw(x []string, xLabel, yLabel string, lines []series) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, v := range l.y {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	low, high = low/1.2, high*1.2
	across := func(i int) float64 { return left + 16 + (right-left-32)*float64(i)/float64(max(1, len(x)-1)) }
	up := func(v float64) float64 { return bottom - (bottom-top)*math.Log(v/low)/math.Log(high/low) }

	var svg strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&svg, format+"\n", args...) }
	add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 420" font-family="sans-serif" font-size="12">`)
	add(`<rect width="100%%" height="100%%" fill="white"/>`)
	for power := math.Pow(10, math.Floor(math.Log10(low))); power < high; power *= 10 {
		for _, tick := range []float64{power, 2 * power, 5 * power} {
			if tick >= low && tick <= high {
				add(`<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, left, right, up(tick), up(tick))
				add(`<text x="%.0f" y="%.1f" text-anchor="end" fill="#444">%s</text>`, left-8, up(tick)+4,
					grouped(fmt.Sprintf("%g", tick)))
			}
		}
	}
	for i, label := range x {
		add(`<line y1="%.0f" y2="%.0f" x1="%.1f" x2="%.1f" stroke="#ddd"/>`, top, bottom, across(i), across(i))
		add(`<text x="%.1f" y="%.0f" text-anchor="middle" fill="#444">%s</text>`, across(i), bottom+18, label)
	}
	add(`<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`, (left+right)/2, bottom+38, html.EscapeString(xLabel))
	add(`<text transform="translate(16 %.0f) rotate(-90)" text-anchor="middle">%s</text>`, (top+bottom)/2, yLabel)

	labels := spread(lines, up)
	for n, l := range lines {
		colour, points := colours[n%len(colours)], []string{}
		for i, v := range l.y {
			if v > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", across(i), up(v)))
				add(`<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`, across(i), up(v), colour)
			}
		}
		add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), colour)
		add(`<text x="%.0f" y="%.1f" fill="%s">%s</text>`, right+8, labels[n]+4, colour, html.EscapeString(l.name))
	}
	return svg.String() + "</svg>\n"
}

// spread returns where the names stand: beside the last points, but not on top of each other.
func spread(lines []series, up func(float64) float64) []float64 {
	order, at := make([]int, len(lines)), make([]float64, len(lines))
	for i, l := range lines {
		order[i], at[i] = i, bottom
		if last := l.y[len(l.y)-1]; last > 0 {
			at[i] = up(last)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, at[a]-at[b])) })
	for n, i := range order[1:] {
		at[i] = max(at[i], at[order[n]]+lineHeight)
	}
	limit := bottom + lineHeight
	for _, i := range slices.Backward(order) {
		at[i] = min(at[i], limit)
		limit = at[i] - lineHeight
	}
	return at
}
