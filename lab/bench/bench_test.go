//go:build linux

package main

import (
	"bytes"
	"testing"
)

func TestSheetWritesNameValueAndUnit(t *testing.T) {
	for value, want := range map[float64]string{
		0:          "x 0 s\n",
		4:          "x 4 s\n",
		1.23456:    "x 1.235 s\n",
		12_345_678: "x 12345678 s\n",
	} {
		var out bytes.Buffer
		(&sheet{out: &out}).number("x", value, "s")
		if out.String() != want {
			t.Errorf("number %v: got %q, want %q", value, out.String(), want)
		}
	}
}

func TestMedianReturnsOneOfTheValues(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestPercentileIsNearestRank(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	for _, c := range []struct {
		values  []float64
		percent int
		want    float64
	}{
		{[]float64{3}, 99, 3},
		{[]float64{1, 9, 2}, 99, 9},
		{hundred, 99, 99},
		{hundred, 50, 50},
		{hundred, 100, 100},
	} {
		if got := percentile(c.values, c.percent); got != c.want {
			t.Errorf("percentile %d of %d values = %v, want %v", c.percent, len(c.values), got, c.want)
		}
	}
}

func TestChooseSelectsGroupsByNameOrPrefix(t *testing.T) {
	if all, err := choose(""); err != nil || len(all) != len(groups()) {
		t.Errorf(`choose("") returns %d groups (%v), want all %d`, len(all), err, len(groups()))
	}
	if one, err := choose("join"); err != nil || len(one) != 1 || one[0].name != "join" {
		t.Errorf(`choose("join") = %v (%v), want group join`, one, err)
	}
	if both, err := choose("settings"); err != nil || len(both) != 2 {
		t.Errorf(`choose("settings") = %v (%v), want two groups`, both, err)
	}
	if _, err := choose("joins"); err == nil {
		t.Error(`choose("joins") returns no error for an unknown group`)
	}
}
