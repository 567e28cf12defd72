"""All that the studio's server says to people, in one place, so that it can be translated, as `page/words.js` is for the page.

What it passes on is worded elsewhere, for all interfaces: what is wrong with a file or with the value of an option, and how
strong noise is.
"""

# Of addresses and access.
NO_ADDRESS = "there is no such address"
NO_LAYER = "there is no such layer"
NO_STATIC_FILE = "there is no such file"
NO_TILE = "there is no such tile"
NOT_ADMITTED = "this page needs the address that 'nlridge studio' printed, which works once"
USED_BEFORE = "this address was used before; start 'nlridge studio' again for a new one"
WRONG_HOST = "the name of the host is wrong; expected the address that 'nlridge studio' printed"
WRONG_PAGE = "the request comes from another page"
TWO_LENGTHS = "the request has two lengths; expected one"
NO_ORIGIN = "the request has no origin; expected that of the page"
NO_HEADER = "the request has no header X-Nlridge; expected one"
THE_MESSAGE = "the message"
NOT_JSON = "the message is not JSON; expected a JSON object"
NESTED = "the message is nested too deeply; expected a JSON object"
NOT_FINITE = "a number is {constant}; expected a finite one"
NOT_WHOLE = "{name} is not a whole number from 0 to {most}"
UNKNOWN = "{name} is unknown; expected {names}"
MANY_PAGES = "{clients} pages are open; expected fewer"
REACHABLE = (
    "everybody who can reach {address} and knows the address below can use this computer's studio; the connection is "
    "not encrypted"
)

# Of uploads, files and folders.
LARGE_UPLOAD = "the file is too large; expected at most {most} bytes"
MANY_UPLOADS = "{uploads} files are being uploaded; expected fewer at a time"
PAUSED_UPLOAD = "the upload paused for too long; expected all of it"
NO_FOLDER = "the studio was started without a folder"
NOT_IN_FOLDER = "the folder has no such file"
NO_FILE = "{path}: no such file or folder"
THE_FILE = "the file"
SEVERAL_RAW_IMAGES = "it holds several raw images; expected one"
NO_MEMORY = "the image does not fit into memory"

# Of images that are open.
CLOSED = "the image is not open any more"
DROPPED = "{name} was closed, since the images that are open take too much memory"
CHANNEL = "channel {number}"
FRAME = "{number} of {count}"
FRAME_OF_AXIS = "{axis} {number} of {count}"
RAW_IS_DEVELOPED = "raw: developed for the screen, saved as a raw image"
SEVERAL_SHAPES = "images of several shapes: the first is shown, all are saved"
AXES_AS_COLORS = "the file does not name its axes: the last is taken for colors"
AXES_AS_STACK = "the file does not name its axes: the first is taken for a stack"

# Of work and results.
DENOISING = "denoising with {method}"
ESTIMATING = "estimating the noise"
REMOVED = "{removed:.3g} (rms)"
UNKNOWN_PLACE = "where is unknown; expected 'beside' or 'download'"
WAS_UPLOADED = "the image was uploaded; expected a download"
EXISTS = "{name} exists; expected a new name, or leave to replace it"
IS_LINK = "{name} is a link; expected a file, or a new name"
CHANGED_MEANWHILE = "the settings were changed meanwhile; save again"
