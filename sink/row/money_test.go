package row

import "testing"

func TestParseMoney(t *testing.T) {
	for in, want := range map[string]Money{
		"0": 0, "0.0042": 4_200_000, "1.0000000019": 1_000_000_001, "999999999.999999999999999999": MaxMoney, ".5": 500_000_000, "7.": 7_000_000_000,
	} {
		if got, ok := ParseMoney(in); got != want || !ok {
			t.Errorf("ParseMoney(%q) = %d, %t, want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{"", ".", "-1", "1e3", "1000000000", "1.2.3", " 1"} {
		if got, ok := ParseMoney(in); ok {
			t.Errorf("ParseMoney(%q) = %d", in, got)
		}
	}
}
