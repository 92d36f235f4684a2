"""The peer of `critters.rs`: the same recipe in numpy, one image at a time, all pixels of it at once.

Written from the recipe, not from the Rust, so the sum of the first 200 images is a test of both. Prints the seconds
per image and that sum.
"""

import time

import numpy as np

IMAGES = 200
SIZE = 32
SEED = 7
U64 = np.uint64
np.seterr(over="ignore")  # u64 arithmetic wraps on purpose
GAMMA = U64(0x9E3779B97F4A7C15)
GAPS = np.array([6] * 8 + [2.6, 3.2, 2.6, 3.0, 2.15, 2.8, 6, 5])
OFF_PATH = 0.08
PREVALENCE = {8: 0.5, 9: 0.4, 10: 0.4, 11: 0.3, 12: 0.5, 13: 0.35, 14: 0.5, 15: 0.25}
# Questions on the way to each species: attribute and answer.
PATHS = [
    {0: 1, 4: 1, 2: 1}, {0: 1, 4: 1, 2: 0}, {0: 1, 4: 0, 6: 1}, {0: 1, 4: 0, 6: 0, 1: 1}, {0: 1, 4: 0, 6: 0, 1: 0},
    {0: 0, 1: 1, 3: 1, 7: 1}, {0: 0, 1: 1, 3: 1, 7: 0}, {0: 0, 1: 1, 3: 0, 5: 1}, {0: 0, 1: 1, 3: 0, 5: 0},
    {0: 0, 1: 0, 6: 1, 2: 1}, {0: 0, 1: 0, 6: 1, 2: 0}, {0: 0, 1: 0, 6: 0},
]  # fmt: skip


def mix(z):
    z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
    return z ^ (z >> U64(31))


def conditional(pa, pb, phi, given):
    c = phi * np.sqrt(pa * (1 - pa) * pb * (1 - pb))
    return (pa * pb + c) / pb if given else (pa * (1 - pb) - c) / (1 - pb)


def strengths(uniform):
    path = PATHS[int(12 * uniform(0))]
    y = [path.get(j, int(uniform(1 + j) < OFF_PATH)) for j in range(8)] + [0] * 8
    for j in (14, 8, 10, 9, 11, 12, 13, 15):
        p = PREVALENCE[j]
        if j == 9:
            p = conditional(p, PREVALENCE[8], 0.35, y[8])
        if j == 11:
            p = conditional(p, PREVALENCE[10], 0.30, y[10])
        y[j] = int(uniform(1 + j) < p)
    noise = np.array([uniform(64 + 12 * j + np.arange(12)).sum() - 6 for j in range(16)])
    return np.clip(0.5 + ((np.array(y) - 0.5) * GAPS + noise) / 6, 0, 1)


def render(index):
    start = mix(np.array([SEED], U64) + GAMMA * U64(index + 1))[0]

    def draw(c):
        return mix(start + GAMMA * (np.asarray(c, U64) + U64(1)))

    def uniform(c):
        return (draw(c) >> U64(11)).astype(float) * 2.0**-53

    def between(c, low, high):
        return low + (high - low) * uniform(c)

    a = strengths(uniform)
    centre = (np.arange(SIZE) + 0.5) / SIZE * 2 - 1
    x, y = np.meshgrid(centre - between(256, -0.08, 0.08), centre - between(257, -0.08, 0.08))
    scale, t = between(258, 0.94, 1.06), between(259, -0.06, 0.06)
    cos, sin = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    u, v = (cos * x + sin * y) / scale, (-sin * x + cos * y) / scale

    def cover(distance):
        return np.clip(0.5 - distance * SIZE / 2, 0, 1)

    def ellipse(cx, cy, rx, ry):
        return (np.sqrt(((u - cx) / rx) ** 2 + ((v - cy) / ry) ** 2) - 1) * min(rx, ry)

    def segment(ax, ay, bx, by, half):
        dx, dy = bx - ax, by - ay
        along = np.clip(((u - ax) * dx + (v - ay) * dy) / (dx * dx + dy * dy), 0, 1)
        return np.hypot(u - ax - along * dx, v - ay - along * dy) - half

    def triangle(corners):
        inside = np.mean(corners, axis=0)
        distances = []
        for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1]):
            normal = np.array([y1 - y0, x0 - x1]) / np.hypot(x1 - x0, y1 - y0)
            if normal @ (inside - (x0, y0)) > 0:
                normal = -normal
            distances.append(normal[0] * (u - x0) + normal[1] * (v - y0))
        return np.max(distances, axis=0)

    def rectangle(cx, cy, hx, hy):
        return np.maximum(abs(u - cx) - hx, abs(v - cy) - hy)

    image = np.zeros((3, SIZE, SIZE))

    def put(mask, colour):
        image[:] = image * (1 - mask) + mask * np.asarray(colour, float)[:, None, None]

    weight = np.clip((v + 1) / 2, 0, 1)
    sky = between(260 + np.arange(6), 0.35, 0.75)
    image[:] = sky[:3, None, None] * (1 - weight) + weight * sky[3:, None, None]
    level, warm = 0.80 - 0.48 * a[4], a[5] - 0.5
    coat = np.array([level + 0.22 * warm, level - 0.02, level - 0.22 * warm]) + between(266 + np.arange(3), -0.04, 0.04)
    for s in (-1, 1):
        round_ear = cover(ellipse(s * 0.56, -0.60, 0.24, 0.24))
        sharp_ear = cover(triangle([(s * 0.34, -0.58), (s * 0.80, -0.38), (s * 0.74, -0.98)]))
        put((1 - a[1]) * round_ear + a[1] * sharp_ear, 0.85 * coat)
    for s in (-1, 1):
        put(a[0] * cover(triangle([(s * 0.12, -0.62), (s * 0.34, -0.58), (s * 0.26, -1.02)])), (0.95, 0.92, 0.75))
    head = cover(ellipse(0, 0.06, 0.72, 0.76))
    put(head, coat)
    for at in (-0.36, -0.12, 0.12, 0.36):
        put(0.8 * a[2] * cover(rectangle(at, -0.47, 0.045, 0.16)) * head, 0.35 * coat)
    for cx, cy in ((-0.50, 0.02), (0.52, 0.06), (-0.34, 0.50), (0.36, 0.52), (0, -0.28), (0, 0.62)):
        put(0.8 * a[3] * cover(ellipse(cx, cy, 0.085, 0.085)) * head, 0.45 * coat + 0.05)
    for s in (-1, 1):
        radius = 0.11 + 0.09 * a[7]
        put(cover(ellipse(s * 0.28, -0.10, radius, radius)), (0.97, 0.97, 0.97))
        put(cover(ellipse(s * 0.28 + 0.02, -0.09, 0.055, 0.055)), (0.05, 0.05, 0.08))
        put(cover(segment(s * 0.42, -0.33, s * 0.15, -0.37, 0.012 + 0.055 * a[13])), (0.12, 0.08, 0.06))
        put(a[14] * cover(abs(ellipse(s * 0.28, -0.10, 0.24, 0.22)) - 0.028), (0.08, 0.08, 0.30))
        put(0.75 * a[12] * cover(ellipse(s * 0.46, 0.26, 0.13, 0.10)), (0.95, 0.45, 0.50))
    put(a[14] * cover(segment(-0.05, -0.12, 0.05, -0.12, 0.028)), (0.08, 0.08, 0.30))
    put(cover(ellipse(0, 0.14, 0.07, 0.055)), (0.25, 0.15, 0.15))
    line = 0.42 - 6 * (a[8] - 0.5) * (u * u - 0.04)
    opening, thickness, red = 0.10 * a[9], 0.022 + 0.055 * a[11], a[10]
    lips = (0.30 + 0.55 * red, 0.16 - 0.04 * red, 0.18 - 0.02 * red)
    put(cover(np.maximum(abs(v - line) - (opening + thickness), abs(u) - 0.30)), lips)
    if a[9] > 0.15:
        put(cover(np.maximum(abs(v - line) - opening, abs(u) - 0.26)), (0.12, 0.02, 0.04))
    for s in (-1, 1):
        for end in (0.14, 0.24, 0.34):
            put(0.9 * a[6] * cover(segment(s * 0.30, 0.24, s * 0.86, end, 0.014)), (0.98, 0.98, 0.98))
    put(a[15] * cover(rectangle(0, 0.86, 0.5, 0.09)), (0.15, 0.55, 0.25))
    light = between(270 + np.arange(2), -0.12, 0.12)
    image *= 1 + light[0] * u + light[1] * v
    draws = draw(1024 + np.arange(3 * SIZE * SIZE)).reshape(3, SIZE, SIZE)
    quarters = sum((draws >> U64(16 * q)) & U64(0xFFFF) for q in range(4)).astype(float)
    image += 0.06 * np.sqrt(3) * (quarters / 65536 - 2)
    return np.floor(255 * np.clip(image, 0, 1) + 0.5).astype(np.uint8)


if __name__ == "__main__":
    render(0)
    started = time.perf_counter()
    total = sum(int(render(i).sum()) for i in range(IMAGES))
    seconds = (time.perf_counter() - started) / IMAGES
    print(f"seconds={seconds:e} images_per_second={1 / seconds:.0f} sum={total}")
