package windowsbuild_test

import (
	"strconv"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// TestImageCompatibilityOfHosts is the table of containerd 2.
func TestImageCompatibilityOfHosts(t *testing.T) {
	runs := map[windowsbuild.Build][]windowsbuild.Build{ // host: images
		14393: {14393},
		17763: {17763},
		19042: {19042},
		20348: {20348},
		25398: {20348, 25398},
		26100: {20348, 25398, 26100},
		29000: {20348, 25398, 26100, 29000},
	}
	for host, images := range runs {
		for image := range runs {
			want := false
			for _, i := range images {
				want = want || i == image
			}
			if got := windowsbuild.Runs(host, image); got != want {
				t.Errorf("Runs(host %d, image %d) = %v", host, image, got)
			}
		}
		if !windowsbuild.Runs(host, 0) || windowsbuild.Runs(0, host) {
			t.Error("an image without a build must be tried, and no host without one can run any")
		}
	}
}

// TestEarlierHostImpliesLaterOneOnlyWithoutException compares Implies with Runs for all images that the first host may have run.
func TestEarlierHostImpliesLaterOneOnlyWithoutException(t *testing.T) {
	builds := []windowsbuild.Build{0, 14393, 17763, 19042, 20348, 25398, 26100, 29000}
	for _, ran := range builds {
		for _, host := range builds {
			want := ran != 0
			for _, image := range builds[1:] {
				want = want && (!windowsbuild.Runs(ran, image) || windowsbuild.Runs(host, image))
			}
			if got := windowsbuild.Implies(ran, host); got != want {
				t.Errorf("Implies(%d, %d) = %v, want %v", ran, host, got, want)
			}
		}
	}
}

func TestRevisionIsFourthNumber(t *testing.T) {
	for text, want := range map[string]int{"10.0.20348.2402": 2402, "10.0.20348": 0, "10.0.20348.0": 0, "10.0.20348.x": 0} {
		if _, got, _ := windowsbuild.ParseRevision(text); got != want {
			t.Errorf("the revision of %q is %d, want %d", text, got, want)
		}
	}
}

func TestVersionsAreParsedStrictly(t *testing.T) {
	for text, want := range map[string]windowsbuild.Build{
		"10.0.20348": 20348, "10.0.20348.2402": 20348, "10.0.17763.0": 17763, "10.0.26100.1": 26100,
		"": 0, "10": 0, "10.0": 0, "10.0.": 0, "10.0.20348.": 0, "10.0.20348.1.2": 0, "10.0.020348": 0, "10.0.+20348": 0, "10.0.-1": 0, "10.0.20348 ": 0, " 10.0.20348": 0,
		"10.0.0": 0, "6.3.9600": 0, "10.1.20348": 0, "10.0.65536": 0, "10.0.99999999999999999999": 0, "v10.0.20348": 0, "10.0.20348-1": 0, "10.0.２０３４８": 0,
	} {
		got, err := windowsbuild.Parse(text)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("Parse(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, r := range windowsbuild.Releases() {
		year := r.Name[len(r.Name)-4:]
		if r.Version != year || r.Tag != "ltsc"+year || r.Class != "windows"+year || r.Build.Label() != "10.0."+strconv.Itoa(int(r.Build)) {
			t.Errorf("%+v does not agree with itself", r)
		}
		if byBuild, _ := windowsbuild.ReleaseOf(r.Build); byBuild != r {
			t.Errorf("ReleaseOf(%d) = %+v", r.Build, byBuild)
		}
	}
	if got := windowsbuild.Server2022.String(); got != "10.0.20348 (Windows Server 2022)" {
		t.Error(got)
	}
	if got := windowsbuild.Build(25398).String(); got != "10.0.25398" {
		t.Error(got)
	}
}

func TestImagesOfSeveralBuilds(t *testing.T) {
	several, any, none := windowsbuild.Image{Builds: []windowsbuild.Build{17763, 20348}}, windowsbuild.Image{Any: true}, windowsbuild.Image{}
	for host, want := range map[windowsbuild.Build]bool{17763: true, 20348: true, 26100: true, 14393: false} {
		if several.RunsOn(host) != want || !any.RunsOn(host) || none.RunsOn(host) {
			t.Errorf("on %d: %v, %v, %v", host, several.RunsOn(host), any.RunsOn(host), none.RunsOn(host))
		}
	}
	if !several.ForWindows() || !any.ForWindows() || none.ForWindows() {
		t.Error("an image without parts for Windows is not for Windows, all others are")
	}
}

// FuzzParse parses versions as registries may return them.
func FuzzParse(f *testing.F) {
	f.Add("10.0.20348.2402")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := windowsbuild.Parse(text)
		if err != nil {
			return
		}
		if again, err := windowsbuild.Parse(b.Label()); err != nil || again != b || len(text) > len("10.0.65535.")+10 {
			t.Errorf("Parse(%q) = %d, which is read as %d, %v", text, b, again, err)
		}
	})
}
