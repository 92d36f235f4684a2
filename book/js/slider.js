// Figures that move (scripts/slider.py): one frame is seen at a time, the one that the slider below says.
(() => {
    "use strict";

    for (const slider of document.querySelectorAll(".slider")) {
        const captions = JSON.parse(slider.dataset.captions);
        const groups = slider.querySelectorAll("[data-frame]");
        const controls = slider.querySelector(".slider-controls");
        const [button, range] = [controls.querySelector("button"), controls.querySelector("input")];
        const text = slider.querySelector("output");
        let timer = null;

        const show = (frame) => {
            for (const group of groups) {
                group.setAttribute("visibility", Number(group.dataset.frame) === frame ? "visible" : "hidden");
            }
            const place = `${frame} of ${captions.length}`;
            range.value = frame;
            range.setAttribute("aria-valuetext", place);
            text.textContent = `${place}: ${captions[frame - 1]}`;
        };
        const pause = () => {
            clearInterval(timer);
            timer = null;
            button.textContent = "Play";
            text.setAttribute("aria-live", "polite");
        };
        const play = () => {
            // What changes by itself is not read out.
            text.setAttribute("aria-live", "off");
            button.textContent = "Pause";
            if (Number(range.value) === captions.length) show(1);
            timer = setInterval(() => {
                show(Number(range.value) + 1);
                if (Number(range.value) === captions.length) pause();
            }, 1000 * Number(slider.dataset.seconds));
        };

        button.addEventListener("click", () => (timer === null ? play() : pause()));
        range.addEventListener("input", () => {
            pause();
            show(Number(range.value));
        });
        // The arrow keys of the slider are not those that turn the pages of the book.
        range.addEventListener("keydown", (event) => {
            if (event.key.startsWith("Arrow")) event.stopPropagation();
        });
        controls.hidden = false;
        show(1);
    }
})();
